#pragma once

#include <MetalPerformanceShadersGraph/MPSGraphCore.h>

#pragma clang assume_nonnull begin

@class MPSGraphOperation;

@interface MPSGraphTensor : MPSGraphObject <NSCopying>

@property(readonly, nullable, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) MPSGraphOperation* operation;

- (instancetype)init NS_UNAVAILABLE;

@end

#pragma clang assume_nonnull end
