// Placeholders and constants.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphMemoryOps)

- (MPSGraphTensor*)constantWithData:(NSData*)data shape:(MPSShape*)shape dataType:(MPSDataType)dataType;

- (MPSGraphTensor*)constantWithScalar:(double)scalar dataType:(MPSDataType)dataType;

- (MPSGraphTensor*)constantWithScalar:(double)scalar shape:(MPSShape*)shape dataType:(MPSDataType)dataType;

- (MPSGraphTensor*)placeholderWithShape:(MPSShape* _Nullable)shape
                               dataType:(MPSDataType)dataType
                                   name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
