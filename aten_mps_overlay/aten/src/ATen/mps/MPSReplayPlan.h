#pragma once

// The calls of which a replay consists. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSIndirectCommands.h>
#include <ATen/mps/MPSReplayRefreshes.h>
#include <ATen/mps/MPSStream.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace at::mps {

/// Looks for errors in each command buffer that a replay encodes to: an executable or a kernel object may commit one
/// and go on in the next. Keeps an object until the GPU is done with all of them.
class MPSReplayWatch {
 public:
  MPSReplayWatch(MPSStream* stream, NSObject* kept) : stream_(stream), kept_(kept) {}

  /// After something that may have committed; also before the first.
  void look();
  /// `problem` is asked on completion of the last one for an error that the GPU does not know of.
  void watch(std::string (^problem)(id<MTLCommandBuffer>));
  /// Calls the block when the GPU is done with the last one.
  void afterwards(void (^block)());
  id<MTLCommandBuffer> last() const {
    return watched_.get();
  }

 private:
  MPSStream* const stream_;
  NSObject* const kept_;
  MPSRetained<id<MTLCommandBuffer>> watched_;
};

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
    RUN_GRAPH,
    RUN_LINKED,
    COPY,
    FILL,
    REFRESH,
    ENCODE,
    ENCODE_WITH_ENCODER,
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
  MPSReplayRefreshes refreshes;
  // the bytes of setBytes: that all replays repeat
  MPSRetained<id<MTLBuffer>> constants;
  std::vector<std::unique_ptr<MPSIndirectCommands>> indirect;

  MPSReplayCall& add(MPSReplayCall::Kind kind) {
    calls.emplace_back().kind = kind;
    return calls.back();
  }
};

/// Encodes a replay. It does not change once it is made.
class MPSReplayPlan {
 public:
  explicit MPSReplayPlan(MPSReplayCalls made) : made_(std::move(made)) {}

  const MPSReplayRefreshes& refreshes() const {
    return made_.refreshes;
  }
  void addUsedIndirectlyTo(NSMutableArray* objects) const {
    for (const auto& commands : made_.indirect) {
      commands->addUsedTo(objects);
    }
  }
  /// Encodes everything; `staging` is what refreshes().write() gave. Must run on the stream's queue, with no compute
  /// encoder open.
  void encode(MPSStream* stream, MPSReplayWatch& watch, id<MTLBuffer> staging) const;

 private:
  using Calls = std::vector<MPSReplayCall>;

  // up to the next commit
  Calls::const_iterator encodePiece(Calls::const_iterator next,
                                    MPSStream* stream,
                                    MPSReplayWatch& watch,
                                    id<MTLBuffer> staging) const;
  void encodeBlit(MPSCommandBuffer* command_buffer, const MPSReplayCall& call, id<MTLBuffer> staging) const;

  MPSReplayCalls made_;
};

} // namespace at::mps
