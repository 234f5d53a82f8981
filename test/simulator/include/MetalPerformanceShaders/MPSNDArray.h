#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

#pragma clang assume_nonnull begin

// Dimension 0 is the fastest moving one; a `shape` lists the dimensions the
// other way round.
@interface MPSNDArrayDescriptor : NSObject <NSCopying>
@property(readwrite, nonatomic) MPSDataType dataType;
@property(readwrite, nonatomic) NSUInteger numberOfDimensions;
#ifdef __MAC_15_0
@property(readwrite, nonatomic) BOOL preferPackedRows;
#endif
+ (instancetype)descriptorWithDataType:(MPSDataType)dataType shape:(MPSShape*)shape;
- (NSUInteger)lengthOfDimension:(NSUInteger)dimensionIndex;
- (MPSDimensionSlice)sliceRangeForDimension:(NSUInteger)dimensionIndex;
- (void)sliceDimension:(NSUInteger)dimensionIndex withSubrange:(MPSDimensionSlice)subRange;
- (void)transposeDimension:(NSUInteger)dimensionIndex withDimension:(NSUInteger)dimensionIndex2;
- (void)permuteWithDimensionOrder:(NSUInteger* _Nonnull)dimensionOrder;
- (vector_uchar16)dimensionOrder;
- (MPSShape*)getShape;
@end

@interface MPSNDArray : NSObject
@property(copy, atomic, nullable) NSString* label;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) NSUInteger numberOfDimensions;
@property(readonly, retain, nonatomic) id<MTLDevice> device;
@property(readonly, retain, nonatomic, nullable) MPSNDArray* parent;
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSNDArrayDescriptor*)descriptor;
- (instancetype)initWithDevice:(id<MTLDevice>)device scalar:(double)value;
#ifdef __MAC_15_0
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSNDArrayDescriptor*)descriptor;
#endif
- (instancetype)init NS_UNAVAILABLE;
- (NSUInteger)lengthOfDimension:(NSUInteger)dimensionIndex;
- (MPSNDArrayDescriptor*)descriptor;
- (nullable id<MTLBuffer>)userBuffer;
- (nullable MPSNDArray*)arrayViewWithCommandBuffer:(nullable id<MTLCommandBuffer>)cmdBuf
                                        descriptor:(MPSNDArrayDescriptor*)descriptor
                                          aliasing:(MPSAliasingStrategy)aliasing;
#ifdef __MAC_15_0
- (nullable MPSNDArray*)arrayViewWithDescriptor:(MPSNDArrayDescriptor*)descriptor;
- (nullable MPSNDArray*)arrayViewWithShape:(nullable MPSShape*)shape strides:(MPSShape*)strides;
- (nullable MPSNDArray*)arrayViewWithDimensionCount:(NSUInteger)numberOfDimensions
                                     dimensionSizes:(const NSUInteger* _Nonnull)dimensionSizes
                                            strides:(const NSUInteger* _Nonnull)dimStrides;
#endif
- (void)readBytes:(void*)buffer strideBytes:(nullable NSInteger*)strideBytesPerDimension;
- (void)writeBytes:(void*)buffer strideBytes:(nullable NSInteger*)strideBytesPerDimension;
- (void)exportDataWithCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                           toBuffer:(id<MTLBuffer>)buffer
                destinationDataType:(MPSDataType)destinationDataType
                             offset:(NSUInteger)offset
                         rowStrides:(nullable NSInteger*)rowStrides;
- (void)printNDArray;
@end

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
@property(readwrite, nonatomic) double alpha, beta;
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
@end
#endif

#pragma clang assume_nonnull end
