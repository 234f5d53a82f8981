#pragma once

// The calls of which a replay consists. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSIndirectCommands.h>
#include <ATen/mps/MPSReplayRefreshes.h>

#include <memory>
#include <vector>

namespace at::mps {

class MPSStepEncoder;

/// One call of a replay. What it names is owned by the steps or by the plan.
struct MPSReplayCall {
  enum class Kind : uint8_t {
    SET_PIPELINE,
    SET_BUFFER,
    SET_BUFFER_OFFSET,
    SET_BUFFERS,
    SET_BYTES,
    SET_REFRESHED_BYTES,
    SET_THREADGROUP_MEMORY,
    USE_RESOURCE,
    MEMORY_BARRIER,
    DISPATCH,
    EXECUTE,
    END_ENCODER,
    // all that is no kernel
    STEP,
    COMMIT,
  };
  Kind kind;
  // where an argument is bound
  NSUInteger index = 0;
  // an offset (of SET_REFRESHED_BYTES: in the staging buffer), length, usage or scope, or the first of several buffers
  NSUInteger value = 0;
  NSUInteger count = 0;
  id object = nil;
  // bytes, or the step
  const void* data = nullptr;
};

/// All calls of a replay, in their order, and what they need.
struct MPSReplayCalls {
  std::vector<MPSReplayCall> calls;
  // the arguments of SET_BUFFERS
  std::vector<id<MTLBuffer>> buffers;
  std::vector<NSUInteger> offsets;
  // the bytes of setBytes: that all replays repeat
  MPSRetained<id<MTLBuffer>> constants;
  std::vector<std::unique_ptr<MPSIndirectCommands>> indirect;

  MPSReplayCall& add(MPSReplayCall::Kind kind) {
    calls.emplace_back().kind = kind;
    return calls.back();
  }
};

/// Encodes a replay by as few calls as can be. It does not change once it is made.
class MPSReplayPlan {
 public:
  /// Joins and leaves out calls where that changes nothing, and commits early. With
  /// PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS=1 runs of kernels become indirect command buffers where that takes fewer
  /// calls.
  MPSReplayPlan(const MPSStepOrder& steps, const MPSReplayRefreshes& refreshes, id<MTLDevice> device);

  void addUsedIndirectlyTo(NSMutableArray* objects) const {
    for (const auto& commands : made_.indirect) {
      commands->addUsedTo(objects);
    }
  }
  /// Encodes everything; `staging` is the buffer that the encoder of steps has. Must run outside of captures.
  void encode(MPSStepEncoder& steps, id<MTLBuffer> staging) const;

 private:
  MPSReplayCalls made_;
};

} // namespace at::mps
