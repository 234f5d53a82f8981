#pragma once

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <simd/simd.h>

#pragma clang assume_nonnull begin

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
  MPSDataTypeInt2 = MPSDataTypeSignedBit | 2,
  MPSDataTypeInt8 = MPSDataTypeSignedBit | 8,
  MPSDataTypeInt16 = MPSDataTypeSignedBit | 16,
  MPSDataTypeInt32 = MPSDataTypeSignedBit | 32,
  MPSDataTypeInt64 = MPSDataTypeSignedBit | 64,

  MPSDataTypeUInt2 = 2,
  MPSDataTypeUInt8 = 8,
  MPSDataTypeUInt16 = 16,
  MPSDataTypeUInt32 = 32,
  MPSDataTypeUInt64 = 64,

  MPSDataTypeAlternateEncodingBit = 0x80000000,
  MPSDataTypeBool = MPSDataTypeAlternateEncodingBit | 8,
#ifdef __MAC_14_0
  MPSDataTypeBFloat16 = MPSDataTypeAlternateEncodingBit | MPSDataTypeFloat16,
#endif

  MPSDataTypeNormalizedBit = 0x40000000,
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

typedef struct MPSDimensionSlice {
  NSUInteger start;
  NSUInteger length;
} MPSDimensionSlice;

typedef NSArray<NSNumber*> MPSShape;

NS_INLINE size_t MPSSizeofMPSDataType(MPSDataType type) {
  return (type & 0xffff) / 8;
}

#ifdef __cplusplus
extern "C" {
#endif
BOOL MPSSupportsMTLDevice(id<MTLDevice> device);
#ifdef __cplusplus
}
#endif

@interface MPSKernel : NSObject <NSCopying, NSSecureCoding>
@property(readwrite, nonatomic) MPSKernelOptions options;
@property(readonly, retain, nonatomic, nonnull) id<MTLDevice> device;
@property(copy, atomic, nullable) NSString* label;
- (nonnull instancetype)initWithDevice:(nonnull id<MTLDevice>)device;
- (nonnull instancetype)copyWithZone:(nullable NSZone*)zone device:(nullable id<MTLDevice>)device;
@end

@protocol MPSHeapProvider;

@interface MPSCommandBuffer : NSObject <MTLCommandBuffer>
@property(readonly, nonatomic, retain) id<MTLCommandBuffer> commandBuffer, rootCommandBuffer;
+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue;
- (instancetype)initWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
- (instancetype)init NS_UNAVAILABLE;
- (void)commitAndContinue;
@end

#pragma clang assume_nonnull end
