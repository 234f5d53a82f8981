#import "metal/device.h"

#include "metal/command_buffer.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/process.h"

using namespace mps_simulator;

@implementation SimulatedCommandQueue

- (instancetype)initWithMaxCommandBufferCount:(NSUInteger)count {
  if ((self = [super init])) {
    note_device_in_use();
    _state = std::make_shared<QueueState>();
    _state->maximum = count;
    Gpu::instance().add_queue(_state);
  }
  return self;
}

- (void)dealloc {
  // Its command buffers retain the queue, so none is left.
  Gpu::instance().remove_queue(_state);
  [super dealloc];
}

- (id<MTLCommandBuffer>)commandBuffer {
  COUNT_CALL();
  return [self newBufferRetaining:YES function:__func__];
}

- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  COUNT_CALL();
  return [self newBufferRetaining:NO function:__func__];
}

- (id<MTLCommandBuffer>)commandBufferWithDescriptor:(MTLCommandBufferDescriptor*)descriptor {
  COUNT_CALL();
  VALIDATE(descriptor, "the descriptor is nil");
  return [self newBufferRetaining:descriptor.retainedReferences function:__func__];
}

- (id<MTLCommandBuffer>)newBufferRetaining:(BOOL)retainedReferences
                                  function:(const char*)function NS_RETURNS_NOT_RETAINED {
  auto& gpu = Gpu::instance();
  // In a forked child nothing can be encoded into it, which the encoder's making
  // reports. Here nothing may be thrown: the backend asks for a command buffer
  // when it frees memory, in destructors.
  if (!device_lost_by_fork()) {
    check_process(function);
    auto held = gpu.lock();
    if (settings().validation && _state->unfinished >= _state->maximum && !_state->committed) {
      violation(
          "%s: all %zu command buffers of the queue are in use and none has "
          "been committed: this would wait for ever",
          function,
          _state->maximum);
    }
    gpu.wait(held, [&] { return _state->unfinished < _state->maximum; });
    ++_state->unfinished;
  }
  return [[[SimulatedCommandBuffer alloc] initWithQueue:self state:_state
                                     retainedReferences:retainedReferences] autorelease];
}

- (void)insertDebugCaptureBoundary {
  COUNT_CALL();
}

@end
