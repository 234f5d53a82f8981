#include "performance_shaders/encode.h"

#include "foundation/copying.h"
#include "metal/device.h"
#include "support/counters.h"
#include "support/error.h"

namespace mps_simulator {

void encode_kernel(id<MTLCommandBuffer> command_buffer, id<MTLComputeCommandEncoder> encoder, const KernelWork& work) {
  if (command_buffer == nil) {
    violation("%s: the command buffer is nil", work.function);
  }
  Command command{display_name(work.function), work.run, {}};
  for (const ByteAccess& access : work.accesses) {
    if (access.buffer != nil) {
      retain_until_completed(command_buffer, access.buffer);
      command.accesses.push_back(access);
    }
  }
  append_command(command_buffer, std::move(command), work.function, encoder);
}

void check_device(id<MTLDevice> device, const char* function) {
  if (device != (id)mps_simulator::device()) {
    violation("%s: the device is %s", function, device == nil ? "nil" : "not the simulated one");
  }
}

} // namespace mps_simulator

using namespace mps_simulator;

@implementation MPSKernel

@synthesize device = _device;

SUPPORTS_SECURE_CODING

- (instancetype)init {
  COUNT_CALL();
  VIOLATION("a kernel needs a device");
}

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  check_device(device, __func__);
  if ((self = [super init])) {
    _device = [device retain];
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [_device release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone*)zone {
  UNSUPPORTED_CALL();
}

@end
