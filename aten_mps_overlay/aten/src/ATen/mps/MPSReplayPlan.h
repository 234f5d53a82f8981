#pragma once

// The calls of which a replay consists, laid down once. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSIndirectCommands.h>
#include <ATen/mps/MPSStream.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace at::mps {

/// What makes a replay cheaper than its steps, one after the other. The environment variable PYTORCH_MPS_GRAPH_WITHOUT
/// turns some off, by their names here, for the captures that begin after it was set: to measure them, or to find out
/// whether one is to blame for something. PYTORCH_MPS_GRAPH_WITH turns on what is off.
struct MPSReplayMechanisms {
  // leave out calls that would bind what is bound already
  bool elided_bindings = true;
  // bind neighbouring buffers by one call
  bool buffer_ranges = true;
  // bytes of setBytes: lie in one buffer of the graph
  bool constant_buffer = true;
  // neighbouring copies and fills share an encoder where none touches what another one writes
  bool shared_blits = true;
  // the GPU begins while the rest is encoded
  bool early_commits = true;
  // what the host gives to the device goes through buffers that are used again
  bool staging_ring = true;
  // kernels that may run at the same time wait only for those whose memory they share, and not for all
  bool hazard_tracking = true;
  // kernels may run at the same time. Only on request, by PYTORCH_MPS_GRAPH_WITH
  bool concurrent_kernels = false;
  // runs of kernels become indirect command buffers. Only on request, by PYTORCH_MPS_GRAPH_WITH
  bool indirect_commands = false;

  /// Raises for a name that it does not know.
  static MPSReplayMechanisms fromEnvironment();
};

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

 private:
  MPSStream* const stream_;
  NSObject* const kept_;
  MPSRetained<id<MTLCommandBuffer>> watched_;
};

/// Buffers of one length that the host writes and the GPU reads.
class MPSStagingBuffers {
 public:
  explicit MPSStagingBuffers(size_t length) : length_(length) {}
  /// One that nobody uses. Raises if there is no memory.
  MPSRetained<id<MTLBuffer>> take(id<MTLDevice> device);
  /// The GPU has read it.
  void giveBack(MPSRetained<id<MTLBuffer>> buffer);
  size_t length() const {
    return length_;
  }

 private:
  const size_t length_;
  std::mutex mutex_;
  std::vector<MPSRetained<id<MTLBuffer>>> free_;
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
  // of a copy, fill or refresh: in an encoder of its own, not in that of the call before
  bool opens_encoder = false;
  // where an argument is bound
  NSUInteger index = 0;
  // an offset (of SET_REFRESHED_BYTES: in the staging buffer), length, usage or scope, or the first of several buffers
  NSUInteger value = 0;
  NSUInteger count = 0;
  id object = nil;
  // bytes, or the step
  const void* data = nullptr;
};

class MPSReplayPlan {
 public:
  /// Steps and linked runs must stay where they are as long as the plan lives.
  MPSReplayPlan(const std::vector<MPSCommandStep>& steps,
                const std::vector<MPSLinkedRun>& linked,
                const MPSReplayMechanisms& mechanisms,
                id<MTLDevice> device);

  /// Whether the bytes of a refresh go to the device before all other work.
  bool isEarlyRefresh(const MPSCommandStep& step) const;
  /// Raises when the host could not give the device what a step needs.
  void checkRefreshes() const;
  /// A buffer with what the host gives to the device now; none if it gives nothing.
  MPSRetained<id<MTLBuffer>> writeRefreshes(id<MTLDevice> device) const;
  /// What the host gave for a kernel, in the staging buffer.
  const void* findBytes(id<MTLBuffer> staging, const MPSRefreshedBytes& refreshed) const;
  /// Copies what the host gave for a step to where the step wants it.
  void encodeRefresh(id<MTLBlitCommandEncoder> encoder, id<MTLBuffer> staging, const MPSHostRefreshStep& step) const;
  /// Encodes everything. Must run on the stream's queue, with no compute encoder open.
  void encode(MPSStream* stream, MPSReplayWatch& watch, id<MTLBuffer> staging) const;

 private:
  friend class MPSReplayPlanner;
  MPSReplayPlan() = default;

  struct Refresh {
    MPSHostRefresh* refresh;
    // if the GPU copies the bytes; else a kernel takes them by setBytes:
    const MPSHostRefreshStep* step;
    size_t offset; // in the staging buffer
    // before all other work, with those of others
    bool is_early;
  };

  using Calls = std::vector<MPSReplayCall>;

  void planRefreshes(const std::vector<MPSCommandStep>& steps);
  /// Of a step, or of what a kernel takes.
  const Refresh& refreshOf(const void* owner) const;
  // up to the next commit
  Calls::const_iterator encodePiece(Calls::const_iterator next,
                                    MPSStream* stream,
                                    MPSReplayWatch& watch,
                                    id<MTLBuffer> staging) const;
  id<MTLComputeCommandEncoder> kernelEncoder(MPSCommandBuffer* command_buffer) const;
  id<MTLBlitCommandEncoder> encodeBlit(id<MTLBlitCommandEncoder> encoder,
                                       MPSCommandBuffer* command_buffer,
                                       const MPSReplayCall& call,
                                       id<MTLBuffer> staging) const;
  void encodeEarlyRefreshes(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const;

  Calls calls_;
  // the arguments of SET_BUFFERS
  std::vector<id<MTLBuffer>> buffers_;
  std::vector<NSUInteger> offsets_;
  // in the order of the steps
  std::vector<Refresh> refreshes_;
  // by owner, where in `refreshes_`
  std::unordered_map<const void*, size_t> refresh_places_;
  bool has_early_refreshes_ = false;
  bool reuses_staging_ = true;
  bool has_concurrent_kernels_ = false;
  // also kept by handlers that may run after the graph is gone
  std::shared_ptr<MPSStagingBuffers> staging_;
  MPSRetained<id<MTLBuffer>> constants_;
  std::vector<std::unique_ptr<MPSIndirectCommands>> indirect_;
};

/// Encodes a copy in the pieces that MPSStream::copy uses: a blit of 4 GiB or more fails without an error.
void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy);
/// Encodes a dispatch, with all that it needs bound.
void encodeDispatch(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernel);

} // namespace at::mps
