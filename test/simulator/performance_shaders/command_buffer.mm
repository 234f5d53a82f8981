#include "support/counters.h"
#include "support/error.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

using namespace mps_simulator;

// Wraps a command buffer and takes the next one of the queue when the work so
// far is to start; callers that encode into it are not affected.
@implementation MPSCommandBuffer {
  id<MTLCommandBuffer> _root;
}

@dynamic device, commandQueue, retainedReferences, errorOptions, label, kernelStartTime, kernelEndTime, GPUStartTime,
    GPUEndTime, status, error;

+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue {
  COUNT_CALL();
  VALIDATE(commandQueue != nil, "the command queue is nil");
  MPSCommandBuffer* buffer = nil;
  @autoreleasepool {
    buffer = [[self alloc] initWithCommandBuffer:[commandQueue commandBuffer]];
  }
  return [buffer autorelease];
}

- (instancetype)initWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  COUNT_CALL();
  VALIDATE(commandBuffer != nil, "the command buffer is nil");
  if ((self = [super init])) {
    _root = [commandBuffer retain];
  }
  return self;
}

- (void)dealloc {
  [_root release];
  [super dealloc];
}

- (id<MTLCommandBuffer>)commandBuffer {
  return _root;
}

- (id<MTLCommandBuffer>)rootCommandBuffer {
  return [_root isKindOfClass:[MPSCommandBuffer class]] ? ((MPSCommandBuffer*)_root).rootCommandBuffer : _root;
}

- (void)takeNextCommandBuffer {
  @autoreleasepool {
    id<MTLCommandBuffer> next = [[_root.commandQueue commandBuffer] retain];
    [_root release];
    _root = next;
  }
}

- (void)commitAndContinue {
  COUNT_CALL();
  [_root commit];
  [self takeNextCommandBuffer];
}

- (void)commit {
  COUNT_CALL();
  [_root commit];
}

- (void)enqueue {
  COUNT_CALL();
  [_root enqueue];
}

- (void)waitUntilCompleted {
  COUNT_CALL();
  try {
    [_root waitUntilCompleted];
  } catch (...) {
    // Metal never throws here, so the caller goes on encoding.
    if (_root.status >= MTLCommandBufferStatusCompleted) {
      [self takeNextCommandBuffer];
    }
    rethrow_as_execution_error(std::current_exception());
  }
}

- (void)waitUntilScheduled {
  COUNT_CALL();
  [_root waitUntilScheduled];
}

- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
  COUNT_CALL();
  [_root addScheduledHandler:block];
}

- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  COUNT_CALL();
  [_root addCompletedHandler:block];
}

- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  COUNT_CALL();
  return [_root blitCommandEncoder];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  COUNT_CALL();
  return [_root computeCommandEncoder];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDescriptor:(MTLComputePassDescriptor*)descriptor {
  COUNT_CALL();
  return [_root computeCommandEncoderWithDescriptor:descriptor];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType {
  COUNT_CALL();
  return [_root computeCommandEncoderWithDispatchType:dispatchType];
}

- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  [_root encodeWaitForEvent:event value:value];
}

- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  [_root encodeSignalEvent:event value:value];
}

- (void)pushDebugGroup:(NSString*)string {
  COUNT_CALL();
  [_root pushDebugGroup:string];
}

- (void)popDebugGroup {
  COUNT_CALL();
  [_root popDebugGroup];
}

// MARK: Properties of the wrapped buffer

- (id<MTLDevice>)device {
  return _root.device;
}

- (id<MTLCommandQueue>)commandQueue {
  return _root.commandQueue;
}

- (BOOL)retainedReferences {
  return _root.retainedReferences;
}

- (MTLCommandBufferErrorOption)errorOptions {
  return _root.errorOptions;
}

- (NSString*)label {
  return _root.label;
}

- (void)setLabel:(NSString*)label {
  _root.label = label;
}

- (CFTimeInterval)kernelStartTime {
  return _root.kernelStartTime;
}

- (CFTimeInterval)kernelEndTime {
  return _root.kernelEndTime;
}

- (CFTimeInterval)GPUStartTime {
  return _root.GPUStartTime;
}

- (CFTimeInterval)GPUEndTime {
  return _root.GPUEndTime;
}

- (MTLCommandBufferStatus)status {
  return _root.status;
}

- (NSError*)error {
  return _root.error;
}

@end
