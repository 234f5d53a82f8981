// Running sums, products and extremes.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphCumulativeOps)

- (MPSGraphTensor*)cumulativeMaximumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;

- (MPSGraphTensor*)cumulativeMinimumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;

- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString* _Nullable)name;

- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;

- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor
                                      axis:(NSInteger)axis
                                 exclusive:(BOOL)exclusive
                                   reverse:(BOOL)reverse
                                      name:(NSString* _Nullable)name;

- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
