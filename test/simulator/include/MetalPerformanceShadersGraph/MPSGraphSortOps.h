// Sorting.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphSortOps)

- (MPSGraphTensor*)argSortWithTensor:(MPSGraphTensor*)tensor
                                axis:(NSInteger)axis
                          descending:(BOOL)descending
                                name:(NSString* _Nullable)name;

- (MPSGraphTensor*)argSortWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

- (MPSGraphTensor*)sortWithTensor:(MPSGraphTensor*)tensor
                             axis:(NSInteger)axis
                       descending:(BOOL)descending
                             name:(NSString* _Nullable)name;

- (MPSGraphTensor*)sortWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;

- (NSArray<MPSGraphTensor*>*)topKWithSourceTensor:(MPSGraphTensor*)source
                                             axis:(NSInteger)axis
                                                k:(NSUInteger)k
                                             name:(NSString* _Nullable)name;

- (NSArray<MPSGraphTensor*>*)topKWithSourceTensor:(MPSGraphTensor*)source
                                                k:(NSUInteger)k
                                             name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
