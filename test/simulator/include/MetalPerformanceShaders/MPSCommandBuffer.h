#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MPSHeapProvider;

@interface MPSCommandBuffer : NSObject <MTLCommandBuffer>
@property(readonly, nonatomic, retain) id<MTLCommandBuffer> commandBuffer;
@property(readonly, nonatomic, retain) id<MTLCommandBuffer> rootCommandBuffer;
@property(readonly, nonatomic, retain, nullable) id<MPSHeapProvider> heapProvider;
+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue;
+ (instancetype)commandBufferWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
- (instancetype)initWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;
- (instancetype)init NS_UNAVAILABLE;
- (void)commitAndContinue;
- (void)prefetchHeapForWorkloadSize:(size_t)size;
@end

NS_ASSUME_NONNULL_END
