// How kernels put their work into a command buffer.
#pragma once

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "metal/command.h"

#include <functional>

namespace mps_simulator {

struct KernelWork {
  const char* function; // the API call that errors name
  std::function<void()> run;
  // What it touches. The buffers, where they are not nil, are kept until the GPU
  // is done.
  std::initializer_list<ByteAccess> accesses;
};

// With an encoder, the work runs between that encoder's dispatches. Without
// one, no encoder may be open on the command buffer.
void encode_kernel(id<MTLCommandBuffer> command_buffer, id<MTLComputeCommandEncoder> encoder, const KernelWork& work);

void check_device(id<MTLDevice> device, const char* function);

} // namespace mps_simulator
