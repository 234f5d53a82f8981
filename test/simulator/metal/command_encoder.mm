#import "metal/command_encoder.h"

#include "metal/device.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

@implementation SimulatedCommandEncoder

- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer {
  if ((self = [super init])) {
    _commandBuffer = [commandBuffer retain];
    _commandBuffer->_openEncoder = self;
    _pass = _commandBuffer->_commands.begin_pass();
  }
  return self;
}

- (void)dealloc {
  if (_commandBuffer && _commandBuffer->_openEncoder == self) {
    // The command buffer's next use reports it: nothing may be thrown here.
    _commandBuffer->_openEncoder = nil;
    _commandBuffer->_lostEncoder = !_failed;
  }
  [_commandBuffer release];
  [super dealloc];
}

- (void)endEncoding {
  COUNT_CALL();
  VALIDATE(!_ended, "the encoder has already ended");
  // A debug group may be left open: the backend does so and Metal reports nothing.
  _ended = YES;
  _commandBuffer->_openEncoder = nil;
  _commandBuffer->_commands.end_pass();
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

@end
