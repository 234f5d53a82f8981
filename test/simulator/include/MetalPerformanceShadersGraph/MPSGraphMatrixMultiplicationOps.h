// Matrix products and attention.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphMatrixMultiplicationOps)

- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                         secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                    name:(NSString* _Nullable)name;

#ifdef __MAC_15_0
- (MPSGraphTensor*)scaledDotProductAttentionWithQueryTensor:(MPSGraphTensor*)queryTensor
                                                  keyTensor:(MPSGraphTensor*)keyTensor
                                                valueTensor:(MPSGraphTensor*)valueTensor
                                                 maskTensor:(MPSGraphTensor* _Nullable)maskTensor
                                                      scale:(float)scale
                                                       name:(NSString* _Nullable)name;
#endif

@end

#pragma clang assume_nonnull end
