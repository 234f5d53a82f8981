#include "performance_shaders/encode.h"

#include "metal/command.h"
#include "metal/command_buffer.h"
#include "metal/device.h"
#include "support/error.h"

namespace mps_simulator {

namespace {

class KernelCommand final : public GpuCommand {
 public:
  KernelCommand(std::string label, std::function<void()> work) : label_(std::move(label)), work_(std::move(work)) {}

  void run() override {
    try {
      work_();
    } catch (c10::Error& error) {
      error.add_context("while the GPU ran " + label_);
      throw;
    }
  }

 private:
  std::string label_;
  std::function<void()> work_;
};

} // namespace

void encode_kernel(id<MTLCommandBuffer> command_buffer, id<MTLComputeCommandEncoder> encoder, const KernelWork& work) {
  if (command_buffer == nil) {
    violation("%s: the command buffer is nil", work.function);
  }
  const std::string label = display_name(work.function);
  if (encoder == nil) {
    append_command(command_buffer, {label, work.run}, work.function);
  } else {
    SimulatedCommandBuffer* root = root_command_buffer(command_buffer, work.function);
    if (root->_openEncoder != (void*)encoder) {
      violation("%s: the encoder is not the one that is open on the command buffer", work.function);
    }
    root->_commands.append<KernelCommand>(label, work.run);
  }
  for (id<MTLBuffer> buffer : work.buffers) {
    retain_until_completed(command_buffer, buffer);
    // Whether it is written is not said here, so the host may still read it.
    note_access(command_buffer, buffer, 0, buffer.length, false);
  }
}

void check_device(id<MTLDevice> device, const char* function) {
  if (device != (id)mps_simulator::device()) {
    violation("%s: the device is %s", function, device == nil ? "nil" : "not the simulated one");
  }
}

} // namespace mps_simulator

BOOL MPSSupportsMTLDevice(id<MTLDevice> device) {
  return device == (id)mps_simulator::device();
}
