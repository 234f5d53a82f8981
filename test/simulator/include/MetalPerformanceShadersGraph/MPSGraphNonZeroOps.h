// Indices of elements that are not zero.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphNonZeroOps)

- (MPSGraphTensor*)nonZeroIndicesOfTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
