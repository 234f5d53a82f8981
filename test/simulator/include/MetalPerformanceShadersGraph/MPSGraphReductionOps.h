// Reductions.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphReductionOps)

- (MPSGraphTensor*)reductionAndWithTensor:(MPSGraphTensor*)tensor
                                     axes:(NSArray<NSNumber*>*)axes
                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionAndWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionArgMaximumWithTensor:(MPSGraphTensor*)tensor
                                            axis:(NSInteger)axis
                                            name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionArgMinimumWithTensor:(MPSGraphTensor*)tensor
                                            axis:(NSInteger)axis
                                            name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMaximumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMaximumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axis:(NSInteger)axis
                                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMaximumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMaximumWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMinimumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMinimumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axis:(NSInteger)axis
                                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMinimumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionMinimumWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionOrWithTensor:(MPSGraphTensor*)tensor
                                    axes:(NSArray<NSNumber*>*)axes
                                    name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionOrWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionProductWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionProductWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionSumWithTensor:(MPSGraphTensor*)tensor
                                     axes:(NSArray<NSNumber*>*)axes
                                     name:(NSString* _Nullable)name;

- (MPSGraphTensor*)reductionSumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
