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
  MPSDataTypeIntBit = MPSDataTypeSignedBit,
  MPSDataTypeInt2 = MPSDataTypeSignedBit | 2,
  MPSDataTypeInt4 = MPSDataTypeSignedBit | 4,
  MPSDataTypeInt8 = MPSDataTypeSignedBit | 8,
  MPSDataTypeInt16 = MPSDataTypeSignedBit | 16,
  MPSDataTypeInt32 = MPSDataTypeSignedBit | 32,
  MPSDataTypeInt64 = MPSDataTypeSignedBit | 64,

  MPSDataTypeUInt2 = 2,
  MPSDataTypeUInt4 = 4,
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
  MPSDataTypeUnorm1 = MPSDataTypeNormalizedBit | 1,
  MPSDataTypeUnorm8 = MPSDataTypeNormalizedBit | 8,
};

typedef NS_OPTIONS(NSUInteger, MPSKernelOptions) {
  MPSKernelOptionsNone = 0,
  MPSKernelOptionsSkipAPIValidation = 1 << 0,
  MPSKernelOptionsAllowReducedPrecision = 1 << 1,
  MPSKernelOptionsDisableInternalTiling = 1 << 2,
  MPSKernelOptionsInsertDebugGroups = 1 << 3,
  MPSKernelOptionsVerbose = 1 << 4,
};

typedef NS_OPTIONS(NSUInteger, MPSAliasingStrategy) {
  MPSAliasingStrategyDefault = 0,
  MPSAliasingStrategyDontCare = MPSAliasingStrategyDefault,
  MPSAliasingStrategyShallAlias = 1 << 0,
  MPSAliasingStrategyShallNotAlias = 1 << 1,
  MPSAliasingStrategyAliasingReserved = MPSAliasingStrategyShallAlias | MPSAliasingStrategyShallNotAlias,
  MPSAliasingStrategyPreferTemporaryMemory = 1 << 2,
  MPSAliasingStrategyPreferNonTemporaryMemory = 1 << 3,
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
@property(readonly, nonatomic, retain, nullable) id<MPSHeapProvider> heapProvider;
+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue;
+ (instancetype)commandBufferWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
- (instancetype)initWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
- (instancetype)init NS_UNAVAILABLE;
- (void)commitAndContinue;
- (void)prefetchHeapForWorkloadSize:(size_t)size;
@end

#pragma clang assume_nonnull end
