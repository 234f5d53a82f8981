#pragma once

#include <MetalPerformanceShadersGraph/MPSGraphCore.h>
#include <MetalPerformanceShadersGraph/MPSGraphDevice.h>

#pragma clang assume_nonnull begin

@interface MPSGraphTensorData : MPSGraphObject

@property(readonly, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) MPSGraphDevice* device;

- (instancetype)initWithDevice:(MPSGraphDevice*)device
                          data:(NSData*)data
                         shape:(MPSShape*)shape
                      dataType:(MPSDataType)dataType;
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer shape:(MPSShape*)shape dataType:(MPSDataType)dataType;
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer
                            shape:(MPSShape*)shape
                         dataType:(MPSDataType)dataType
                         rowBytes:(NSUInteger)rowBytes;
- (instancetype)initWithMPSNDArray:(MPSNDArray*)ndarray;
- (MPSNDArray*)mpsndarray;

@end

#pragma clang assume_nonnull end
