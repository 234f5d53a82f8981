#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

// Dimension 0 is the fastest moving one; a `shape` lists the dimensions the
// other way round.
@interface MPSNDArrayDescriptor : NSObject<NSCopying>
@property(readwrite, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) NSUInteger numberOfDimensions;
#ifdef __MAC_15_0
@property(readwrite, nonatomic) BOOL preferPackedRows;
#endif
+ (instancetype)descriptorWithDataType:(MPSDataType)dataType shape:(MPSShape*)shape;
- (void)transposeDimension:(NSUInteger)dimension withDimension:(NSUInteger)other;
- (MPSShape*)getShape;
@end

@interface MPSNDArray : NSObject
@property(copy, atomic) NSString* label;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) NSUInteger numberOfDimensions;
@property(readonly, retain, nonatomic) id<MTLDevice> device;
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSNDArrayDescriptor*)descriptor;
#ifdef __MAC_15_0
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSNDArrayDescriptor*)descriptor;
#endif
- (MPSNDArrayDescriptor*)descriptor;
- (id<MTLBuffer>)userBuffer;
- (MPSNDArray*)arrayViewWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                               descriptor:(MPSNDArrayDescriptor*)descriptor
                                 aliasing:(MPSAliasingStrategy)aliasing;
#ifdef __MAC_15_0
- (MPSNDArray*)arrayViewWithShape:(MPSShape*)shape strides:(MPSShape*)strides;
#endif
- (void)readBytes:(void*)bytes strideBytes:(NSInteger*)strides;
- (void)writeBytes:(void*)bytes strideBytes:(NSInteger*)strides;
- (void)printNDArray;
@end

@interface MPSNDArrayMultiaryBase : MPSKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (instancetype)initWithDevice:(id<MTLDevice>)device sourceCount:(NSUInteger)count;
@property(readonly, nonatomic) NSUInteger sourceCount;
@end

@interface MPSNDArrayMultiaryKernel : MPSNDArrayMultiaryBase
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
                 sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
             destinationArray:(MPSNDArray*)destination;
- (void)encodeToCommandEncoder:(id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
              destinationArray:(MPSNDArray*)destination;
@end

@interface MPSNDArrayUnaryKernel : MPSNDArrayMultiaryKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device;
@end

@interface MPSNDArrayMatrixMultiplication : MPSNDArrayMultiaryKernel
@end

#ifdef __MAC_15_0
// Newer than the oldest macOS that the backend runs on: there, a library must load without it.
#ifdef __APPLE__
__attribute__((weak_import))
#endif
@interface MPSNDArrayIdentity : MPSNDArrayUnaryKernel
- (MPSNDArray*)reshapeWithCommandBuffer:(id<MTLCommandBuffer>)buffer
                            sourceArray:(MPSNDArray*)sourceArray
                                  shape:(MPSShape*)shape
                       destinationArray:(MPSNDArray*)destinationArray;
@end
#endif
