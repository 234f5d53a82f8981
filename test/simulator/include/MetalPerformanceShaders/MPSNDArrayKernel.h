#pragma once

#include <MetalPerformanceShaders/MPSKernel.h>
#include <MetalPerformanceShaders/MPSNDArray.h>

NS_ASSUME_NONNULL_BEGIN

@interface MPSNDArrayMultiaryBase : MPSKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (instancetype)initWithDevice:(id<MTLDevice>)device sourceCount:(NSUInteger)count;
@property(readonly, nonatomic) NSUInteger sourceCount;
@end

@interface MPSNDArrayMultiaryKernel : MPSNDArrayMultiaryBase
- (MPSNDArray*)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                 sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
             destinationArray:(MPSNDArray*)destination;
- (void)encodeToCommandEncoder:(nullable id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
              destinationArray:(MPSNDArray*)destination;
@end

@interface MPSNDArrayUnaryKernel : MPSNDArrayMultiaryKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device;
- (MPSNDArray*)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf sourceArray:(MPSNDArray*)sourceArray;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                  sourceArray:(MPSNDArray*)sourceArray
             destinationArray:(MPSNDArray*)destination;
- (void)encodeToCommandEncoder:(nullable id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceArray:(MPSNDArray*)sourceArray
              destinationArray:(MPSNDArray*)destination;
@end

@interface MPSNDArrayMatrixMultiplication : MPSNDArrayMultiaryKernel
@property(readwrite, nonatomic) double alpha;
@property(readwrite, nonatomic) double beta;
@end

#ifdef __MAC_15_0
// Newer than the oldest macOS that the backend runs on: there, a library must load without it.
#ifdef __APPLE__
__attribute__((weak_import))
#endif
@interface MPSNDArrayIdentity : MPSNDArrayUnaryKernel
- (nullable MPSNDArray*)reshapeWithCommandBuffer:(nullable id<MTLCommandBuffer>)cmdBuf
                                     sourceArray:(MPSNDArray*)sourceArray
                                           shape:(MPSShape*)shape
                                destinationArray:(nullable MPSNDArray*)destinationArray;
- (nullable MPSNDArray*)reshapeWithCommandBuffer:(nullable id<MTLCommandBuffer>)cmdBuf
                                     sourceArray:(MPSNDArray*)sourceArray
                                  dimensionCount:(NSUInteger)numberOfDimensions
                                  dimensionSizes:(const NSUInteger*)dimensionSizes
                                destinationArray:(nullable MPSNDArray*)destinationArray;
- (nullable MPSNDArray*)reshapeWithCommandEncoder:(nullable id<MTLComputeCommandEncoder>)encoder
                                    commandBuffer:(nullable id<MTLCommandBuffer>)cmdBuf
                                      sourceArray:(MPSNDArray*)sourceArray
                                            shape:(MPSShape*)shape
                                 destinationArray:(nullable MPSNDArray*)destinationArray;
@end
#endif

NS_ASSUME_NONNULL_END
