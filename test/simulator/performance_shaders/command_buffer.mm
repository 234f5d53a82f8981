#include "support/counters.h"
#include "support/error.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

using namespace mps_simulator;

#define PASSES_ON(type, method) \
  -(type)method {               \
    COUNT_CALL();               \
    return [_root method];      \
  }

#define PASSES_ON_WITH(type, method, argument_type) \
  -(type)method : (argument_type)argument {         \
    COUNT_CALL();                                   \
    return [_root method:argument];                 \
  }

// Wraps a command buffer and takes the next one of the queue when the work so
// far is to start; callers that encode into it are not affected.
@implementation MPSCommandBuffer {
  id<MTLCommandBuffer> _root;
}

+ (instancetype)commandBufferFromCommandQueue:(id<MTLCommandQueue>)commandQueue {
  COUNT_CALL();
  VALIDATE(commandQueue != nil, "the command queue is nil");
  MPSCommandBuffer* buffer = nil;
  @autoreleasepool {
    buffer = [[self alloc] init];
    buffer->_root = [[commandQueue commandBuffer] retain];
  }
  return [buffer autorelease];
}

- (void)dealloc {
  [_root release];
  [super dealloc];
}

GETTER(id<MTLCommandBuffer>, commandBuffer, _root)
GETTER(id<MTLCommandBuffer>, rootCommandBuffer, _root)

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

PASSES_ON(void, commit)
PASSES_ON(void, popDebugGroup)
PASSES_ON(id<MTLBlitCommandEncoder>, blitCommandEncoder)
PASSES_ON(id<MTLComputeCommandEncoder>, computeCommandEncoder)
PASSES_ON(id<MTLDevice>, device)
PASSES_ON(id<MTLCommandQueue>, commandQueue)
PASSES_ON(NSString*, label)
PASSES_ON(CFTimeInterval, kernelStartTime)
PASSES_ON(CFTimeInterval, kernelEndTime)
PASSES_ON(CFTimeInterval, GPUStartTime)
PASSES_ON(CFTimeInterval, GPUEndTime)
PASSES_ON(MTLCommandBufferStatus, status)
PASSES_ON(NSError*, error)
PASSES_ON_WITH(void, setLabel, NSString*)
PASSES_ON_WITH(void, pushDebugGroup, NSString*)
PASSES_ON_WITH(void, addScheduledHandler, MTLCommandBufferHandler)
PASSES_ON_WITH(void, addCompletedHandler, MTLCommandBufferHandler)
PASSES_ON_WITH(id<MTLComputeCommandEncoder>, computeCommandEncoderWithDispatchType, MTLDispatchType)

- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  [_root encodeWaitForEvent:event value:value];
}

- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  [_root encodeSignalEvent:event value:value];
}

@end
