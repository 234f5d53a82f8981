#pragma once

// Kernels of a replay in an indirect command buffer, which is encoded once and executed by one call. Objective-C++
// only.

#include <ATen/mps/MPSMemoryHazards.h>

#include <memory>
#include <utility>
#include <vector>

namespace at::mps {

/// A kernel as a command of an indirect command buffer has it.
struct MPSIndirectKernel {
  const MPSKernelStep* kernel = nullptr;
  // what is bound, in the order of the kernel's bindings: bytes lie in a buffer, too
  MPSMemoryHazards::Arguments arguments;
  // for all commands before it
  bool waits = true;
};

class MPSIndirectCommands {
 public:
  // fewer can't be worth a command buffer
  static constexpr size_t kFewest = 4;
  // Metal executes no more by one call
  static constexpr size_t kMostCommands = 16384;

  /// Whether commands can hold such a kernel: it is dispatched directly, has no threadgroup memory, and its function
  /// can be in an indirect command buffer.
  static bool canHold(const MPSKernelStep& kernel);
  /// Null if one of the kernels can't be in an indirect command buffer.
  static std::unique_ptr<MPSIndirectCommands> plan(id<MTLDevice> device, const std::vector<MPSIndirectKernel>& kernels);
  /// Fills the command buffer with the kernels that were planned. Returns false if the device gives none.
  bool make(id<MTLDevice> device, const std::vector<MPSIndirectKernel>& kernels);

  /// How many calls encode() makes; known once it is planned.
  size_t calls() const;
  /// Adds what the commands use and a command buffer that executes them does not retain.
  void addUsedTo(NSMutableArray* objects) const;
  /// Leaves the encoder without a pipeline or arguments that can be relied on.
  void encode(id<MTLComputeCommandEncoder> encoder) const;

 private:
  MPSIndirectCommands() = default;

  // neighbouring buffers; owned by the steps and the plan
  struct Buffers {
    NSUInteger index = 0;
    std::vector<id<MTLBuffer>> buffers;
    std::vector<NSUInteger> offsets;
  };
  // a pipeline of the commands, and what its first kernel binds
  struct FirstUse {
    MPSRetained<id<MTLComputePipelineState>> pipeline;
    std::vector<Buffers> bound;
  };
  static FirstUse firstUseOf(MPSRetained<id<MTLComputePipelineState>> pipeline, const MPSIndirectKernel& indirect);

  MPSRetained<id<MTLIndirectCommandBuffer>> commands_;
  // of the commands
  std::vector<MPSRetained<id<MTLComputePipelineState>>> pipelines_;
  // empty where the GPU needs none
  std::vector<FirstUse> first_uses_;
  // owned by the steps and the plan
  std::vector<id<MTLResource>> resources_;
};

} // namespace at::mps
