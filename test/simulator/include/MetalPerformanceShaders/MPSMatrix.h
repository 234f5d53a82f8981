#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

NS_ASSUME_NONNULL_BEGIN

@interface MPSMatrixDescriptor : NSObject
@property(readwrite, nonatomic) NSUInteger rows;
@property(readwrite, nonatomic) NSUInteger columns;
@property(readonly, nonatomic) NSUInteger matrices;
@property(readwrite, nonatomic) MPSDataType dataType;
@property(readwrite, nonatomic) NSUInteger rowBytes;
@property(readonly, nonatomic) NSUInteger matrixBytes;
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                rowBytes:(NSUInteger)rowBytes
                                dataType:(MPSDataType)dataType;
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                matrices:(NSUInteger)matrices
                                rowBytes:(NSUInteger)rowBytes
                             matrixBytes:(NSUInteger)matrixBytes
                                dataType:(MPSDataType)dataType;
+ (size_t)rowBytesForColumns:(NSUInteger)columns dataType:(MPSDataType)dataType;
@end

@interface MPSMatrix : NSObject
@property(readonly, retain, nonatomic) id<MTLDevice> device;
@property(readonly, nonatomic) NSUInteger rows;
@property(readonly, nonatomic) NSUInteger columns;
@property(readonly, nonatomic) NSUInteger matrices;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) NSUInteger rowBytes;
@property(readonly, nonatomic) NSUInteger matrixBytes;
@property(readonly, nonatomic) NSUInteger offset;
@property(readonly, nonatomic) id<MTLBuffer> data;
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSMatrixDescriptor*)descriptor;
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSMatrixDescriptor*)descriptor;
- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSMatrixDescriptor*)descriptor;
- (instancetype)init NS_UNAVAILABLE;
- (NSUInteger)resourceSize;
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
@end

NS_ASSUME_NONNULL_END
