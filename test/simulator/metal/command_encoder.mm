#import "metal/command_encoder.h"

#include "metal/device.h"
#include "metal/event.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

@implementation SimulatedCommandEncoder

@synthesize label = _label;

- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer {
  if ((self = [super init])) {
    _commandBuffer = [commandBuffer retain];
    _commandBuffer->_openEncoder = self;
  }
  return self;
}

- (void)dealloc {
  if (_commandBuffer && _commandBuffer->_openEncoder == self) {
    // The command buffer's next use reports it: nothing may be thrown here.
    _commandBuffer->_openEncoder = nil;
    _commandBuffer->_lostEncoder = !_failed;
  }
  [_label release];
  [_commandBuffer release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return mps_simulator::device();
}

- (void)endEncoding {
  COUNT_CALL();
  VALIDATE(!_ended, "the encoder has already ended");
  // A debug group may be left open: the backend does so and Metal says nothing.
  _ended = YES;
  _commandBuffer->_openEncoder = nil;
}

- (void)insertDebugSignpost:(NSString*)string {
  COUNT_CALL();
  VALIDATE_ENCODING();
}

- (void)pushDebugGroup:(NSString*)string {
  COUNT_CALL();
  VALIDATE_ENCODING();
  ++_debugGroups;
}

- (void)popDebugGroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(_debugGroups > 0, "there is no debug group to pop");
  _debugGroups -= _debugGroups > 0;
}

// The commands of a queue run one after the other, so a fence holds by itself.
- (void)updateFence:(id<MTLFence>)fence {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(
      [(id)fence isKindOfClass:[SimulatedFence class]],
      "the fence is not one of this device");
  [_commandBuffer retainUntilCompleted:fence];
}

- (void)waitForFence:(id<MTLFence>)fence {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(
      [(id)fence isKindOfClass:[SimulatedFence class]],
      "the fence is not one of this device");
  [_commandBuffer retainUntilCompleted:fence];
}

@end
