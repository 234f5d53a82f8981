#import "metal/command_encoder.h"

#include "metal/device.h"
#include "metal/event.h"
#include "metal/gpu_order.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

namespace {

// Also where no command makes the encoder a pass that starts.
class UpdateFencesCommand final : public GpuCommand {
 public:
  void run() override {
    GpuOrder::instance().updates(*pass);
  }
};

} // namespace

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
  auto& commands = _commandBuffer->_commands;
  if (_pass->updates) {
    commands.append<UpdateFencesCommand>();
  }
  commands.end_pass();
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

- (const FenceUse*)use:(SimulatedFence*)fence after:(const FenceUse*)others {
  [_commandBuffer retainUntilCompleted:fence];
  void* memory = _commandBuffer->_commands.allocate(sizeof(FenceUse));
  return new (memory) FenceUse{fence, others};
}

// The GPU looks at fences where an encoder begins and where it ends. Since all
// runs in the order of commit, there is nothing to wait for.
- (void)updateFence:(id<MTLFence>)fence {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE([(id)fence isKindOfClass:[SimulatedFence class]], "the fence is not one of this device");
  _pass->updates = [self use:(SimulatedFence*)fence after:_pass->updates];
}

- (void)waitForFence:(id<MTLFence>)fence {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE([(id)fence isKindOfClass:[SimulatedFence class]], "the fence is not one of this device");
  for (auto* update = _pass->updates; update; update = update->next) {
    VALIDATE(update->fence != (id)fence,
             "the encoder updates the fence at its end and cannot wait for that at "
             "its beginning");
  }
  _pass->waits = [self use:(SimulatedFence*)fence after:_pass->waits];
}

@end
