#pragma once

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <simd/simd.h>

// The low sixteen bits are the width of an element.
typedef NS_ENUM(uint32_t, MPSDataType) {
  MPSDataTypeInvalid = 0,

  MPSDataTypeFloatBit = 0x10000000,
  MPSDataTypeComplexBit = 0x01000000,
  MPSDataTypeFloat32 = MPSDataTypeFloatBit | 32,
  MPSDataTypeFloat16 = MPSDataTypeFloatBit | 16,
  MPSDataTypeComplexFloat32 = MPSDataTypeFloatBit | MPSDataTypeComplexBit | 64,
  MPSDataTypeComplexFloat16 = MPSDataTypeFloatBit | MPSDataTypeComplexBit | 32,

  MPSDataTypeSignedBit = 0x20000000,
  MPSDataTypeInt8 = MPSDataTypeSignedBit | 8,
  MPSDataTypeInt16 = MPSDataTypeSignedBit | 16,
  MPSDataTypeInt32 = MPSDataTypeSignedBit | 32,
  MPSDataTypeInt64 = MPSDataTypeSignedBit | 64,

  MPSDataTypeUInt8 = 8,
  MPSDataTypeUInt16 = 16,
  MPSDataTypeUInt32 = 32,
  MPSDataTypeUInt64 = 64,

  MPSDataTypeAlternateEncodingBit = 0x80000000,
  MPSDataTypeBool = MPSDataTypeAlternateEncodingBit | 8,
#ifdef __MAC_14_0
  MPSDataTypeBFloat16 = MPSDataTypeAlternateEncodingBit | MPSDataTypeFloat16,
#endif
};

typedef NS_OPTIONS(NSUInteger, MPSKernelOptions) {
  MPSKernelOptionsNone = 0,
};

typedef NS_OPTIONS(NSUInteger, MPSAliasingStrategy) {
  MPSAliasingStrategyDefault = 0,
  MPSAliasingStrategyShallAlias = 1 << 0,
  MPSAliasingStrategyShallNotAlias = 1 << 1,
  MPSAliasingStrategyAliasingReserved = MPSAliasingStrategyShallAlias | MPSAliasingStrategyShallNotAlias,
};

typedef NSArray<NSNumber*> MPSShape;

NS_INLINE size_t MPSSizeofMPSDataType(MPSDataType type) {
  return (type & 0xffff) / 8;
}

@interface MPSKernel : NSObject<NSCopying, NSSecureCoding>
@property(readwrite, nonatomic) MPSKernelOptions options;
@property(readonly, retain, nonatomic) id<MTLDevice> device;
@property(copy, atomic) NSString* label;
- (instancetype)initWithDevice:(id<MTLDevice>)device;
@end

@interface MPSCommandBuffer : NSObject<MTLCommandBuffer>
@property(readonly, nonatomic, retain) id<MTLCommandBuffer> commandBuffer, rootCommandBuffer;
+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue;
- (void)commitAndContinue;
@end
