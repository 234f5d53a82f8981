#pragma once

#import <Metal/MTLIndirectCommandEncoder.h>
#import <Metal/MTLResource.h>

NS_ASSUME_NONNULL_BEGIN

typedef NS_OPTIONS(NSUInteger, MTLIndirectCommandType) {
  MTLIndirectCommandTypeDraw = 1,
  MTLIndirectCommandTypeDrawIndexed = 2,
  MTLIndirectCommandTypeDrawPatches = 4,
  MTLIndirectCommandTypeDrawIndexedPatches = 8,
  MTLIndirectCommandTypeConcurrentDispatch = 32,
  MTLIndirectCommandTypeConcurrentDispatchThreads = 64,
  MTLIndirectCommandTypeDrawMeshThreadgroups = 128,
  MTLIndirectCommandTypeDrawMeshThreads = 256,
};

typedef struct {
  uint32_t location;
  uint32_t length;
} MTLIndirectCommandBufferExecutionRange;

MTL_INLINE MTLIndirectCommandBufferExecutionRange MTLIndirectCommandBufferExecutionRangeMake(uint32_t location,
                                                                                             uint32_t length) {
  MTLIndirectCommandBufferExecutionRange range = {location, length};
  return range;
}

@interface MTLIndirectCommandBufferDescriptor : NSObject <NSCopying>
@property(readwrite, nonatomic) MTLIndirectCommandType commandTypes;
@property(readwrite, nonatomic) BOOL inheritPipelineState;
@property(readwrite, nonatomic) BOOL inheritBuffers;
@property(readwrite, nonatomic) NSUInteger maxVertexBufferBindCount;
@property(readwrite, nonatomic) NSUInteger maxFragmentBufferBindCount;
@property(readwrite, nonatomic) NSUInteger maxKernelBufferBindCount;
@property(readwrite, nonatomic) NSUInteger maxKernelThreadgroupMemoryBindCount;
@property(readwrite, nonatomic) BOOL supportRayTracing;
@property(readwrite, nonatomic) BOOL supportDynamicAttributeStride;
@end

@protocol MTLIndirectCommandBuffer <MTLResource>
@property(readonly) NSUInteger size;
@property(readonly) MTLResourceID gpuResourceID;
- (void)resetWithRange:(NSRange)range;
- (id<MTLIndirectRenderCommand>)indirectRenderCommandAtIndex:(NSUInteger)commandIndex;
- (id<MTLIndirectComputeCommand>)indirectComputeCommandAtIndex:(NSUInteger)commandIndex;
@end

NS_ASSUME_NONNULL_END
