#pragma once

#import <Metal/MTLLibrary.h>
#import <Metal/MTLPipeline.h>

NS_ASSUME_NONNULL_BEGIN

@class MTLLinkedFunctions;
@class MTLStageInputOutputDescriptor;

typedef NS_OPTIONS(NSUInteger, MTLPipelineOption) {
  MTLPipelineOptionNone = 0,
  MTLPipelineOptionArgumentInfo = 1,
  MTLPipelineOptionBindingInfo = 1,
  MTLPipelineOptionBufferTypeInfo = 2,
  MTLPipelineOptionFailOnBinaryArchiveMiss = 4,
};

@interface MTLComputePipelineReflection : NSObject
@property(nonatomic, readonly) NSArray<id<MTLBinding>>* bindings;
@end

typedef MTLComputePipelineReflection* __autoreleasing MTLAutoreleasedComputePipelineReflection;

@interface MTLComputePipelineDescriptor : NSObject <NSCopying>
@property(nullable, copy, nonatomic) NSString* label;
@property(nullable, readwrite, nonatomic, strong) id<MTLFunction> computeFunction;
@property(readwrite, nonatomic) BOOL threadGroupSizeIsMultipleOfThreadExecutionWidth;
@property(readwrite, nonatomic) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) MTLPipelineBufferDescriptorArray* buffers;
@property(readwrite, nonatomic) BOOL supportIndirectCommandBuffers;
@property(readwrite, nonatomic) NSUInteger maxCallStackDepth;
@property(readwrite, nonatomic) BOOL supportAddingBinaryFunctions;
@property(readwrite, nonatomic) MTLShaderValidation shaderValidation;
- (void)reset;
@end

@protocol MTLComputePipelineState <MTLAllocation>
@property(nullable, readonly) NSString* label;
@property(readonly) id<MTLDevice> device;
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger staticThreadgroupMemoryLength;
@property(readonly) BOOL supportIndirectCommandBuffers;
@property(readonly) MTLResourceID gpuResourceID;
@property(readonly) MTLShaderValidation shaderValidation;
- (NSUInteger)imageblockMemoryLengthForDimensions:(MTLSize)imageblockDimensions;
@end

NS_ASSUME_NONNULL_END
