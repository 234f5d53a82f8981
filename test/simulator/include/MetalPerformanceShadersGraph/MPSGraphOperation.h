#pragma once

#include <MetalPerformanceShadersGraph/MPSGraphTensor.h>

#pragma clang assume_nonnull begin

@class MPSGraph;

@interface MPSGraphOperation : MPSGraphObject <NSCopying>

@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* inputTensors;
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* outputTensors;
@property(readonly, nonatomic) NSArray<MPSGraphOperation*>* controlDependencies;
@property(readonly, nonatomic) MPSGraph* graph;
@property(readonly, nonatomic) NSString* name;

- (instancetype)init NS_UNAVAILABLE;

@end

#pragma clang assume_nonnull end
