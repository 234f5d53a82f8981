// Inverses and band matrices.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphLinearAlgebraOps)

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)numLower
                             numUpper:(NSInteger)numUpper
                                 name:(NSString* _Nullable)name;

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                       numLowerTensor:(MPSGraphTensor*)numLowerTensor
                       numUpperTensor:(MPSGraphTensor*)numUpperTensor
                                 name:(NSString* _Nullable)name;

- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
