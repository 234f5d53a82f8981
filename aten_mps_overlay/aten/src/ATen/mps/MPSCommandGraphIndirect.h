#pragma once

// Kernels of a replay in indirect command buffers, which are encoded once and executed by one call each. Objective-C++
// only.

#include <ATen/mps/MPSCommandGraphDispatches.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace at::mps {

/// Dispatches in an indirect command buffer. Commands may run at the same time, so those that use a buffer that an
/// earlier command writes, or write a buffer that it uses, wait for all before them.
class MPSIndirectCommands {
 public:
  // Fewer can't be worth a command buffer.
  static constexpr size_t kFewest = 4;
  // Metal executes no more by one call.
  static constexpr size_t kMost = 16384;

  /// Takes a dispatch that runs with the state. Returns false, and takes nothing, if a command can't hold it.
  bool add(const MPSKernelStep& kernels,
           const MPSEncoderCall& dispatch,
           const MPSEncoderState& state,
           id<MTLBuffer> constants,
           const std::map<const void*, size_t>& places);
  size_t count() const {
    return commands_.size();
  }
  /// Returns how many calls encode() makes.
  size_t calls() const;
  /// Fills an indirect command buffer. Returns false if the device gives none.
  bool make(id<MTLDevice> device);
  /// Leaves the encoder without a pipeline or arguments that can be relied on.
  void encode(id<MTLComputeCommandEncoder> encoder) const;
  /// Adds what the commands use and a command buffer that executes them does not retain.
  void addUsedTo(NSMutableArray* objects) const;

 private:
  struct Access {
    const void* buffer = nullptr;
    bool writes = false;
  };
  struct Command {
    MPSRetained<id<MTLComputePipelineState>> pipeline;
    std::map<NSUInteger, std::pair<MPSRetained<id<MTLBuffer>>, NSUInteger>> arguments;
    bool counts_threads = true;
    MTLSize sizes[2];
    bool waits = false;
  };

  bool mustWait(const std::vector<Access>& accesses, bool is_unknown);
  std::vector<const Command*> firstUses() const;

  std::vector<Command> commands_;
  // each once
  std::vector<MPSRetained<id<MTLResource>>> resources_;
  // since the last command that waits
  std::vector<Access> accesses_;
  bool has_unknown_ = false;
  // GPUs before Apple's ninth family are reported not to load the pipelines of commands by themselves.
  bool uses_pipelines_first_ = false;
  MPSRetained<id<MTLIndirectCommandBuffer>> buffer_;
};

/// Returns the kernels with indirect command buffers in place of dispatches where that takes fewer calls, or nothing if
/// it does nowhere.
std::optional<MPSKernelStep> withIndirectCommands(const MPSKernelStep& kernels, id<MTLDevice> device);

} // namespace at::mps
