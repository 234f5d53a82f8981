#pragma once

// What the host gives to the device at each replay. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSHostRefresh.h>

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace at::mps {

/// Buffers of one length that the host writes and the GPU reads.
class MPSStagingBuffers {
 public:
  explicit MPSStagingBuffers(size_t length) : length_(length) {}
  /// One that is not in use. Waits for the GPU when those in use hold too many
  /// bytes. Raises if there is no memory.
  MPSRetained<id<MTLBuffer>> take(id<MTLDevice> device);
  /// `reader`, which is committed before the next take(), is the last command
  /// buffer that reads it. Returns a number for giveBack().
  size_t lend(MPSRetained<id<MTLBuffer>> buffer, id<MTLCommandBuffer> reader);
  /// The GPU has read what was lent under this number.
  void giveBack(size_t number);
  size_t length() const {
    return length_;
  }

 private:
  struct Lent {
    size_t number = 0;
    MPSRetained<id<MTLBuffer>> buffer;
    MPSRetained<id<MTLCommandBuffer>> reader;
  };

  const size_t length_;
  std::mutex mutex_;
  std::vector<MPSRetained<id<MTLBuffer>>> free_;
  // the oldest first
  std::deque<Lent> lent_;
  size_t last_number_ = 0;
};

/// The host refreshes of all steps, whose bytes lie one after the other in a
/// staging buffer of each replay.
class MPSReplayRefreshes {
 public:
  MPSReplayRefreshes() = default;
  /// The steps must stay where they are.
  explicit MPSReplayRefreshes(const std::vector<MPSCommandStep>& steps);

  /// Whether the bytes of a refresh go to the device before all other work:
  /// those whose destination is their own do, together. Earlier replays have
  /// read theirs by then, since the GPU works in the order of the stream.
  bool isEarly(const MPSCommandStep& step) const;
  /// Raises when the host could not give the device what a step needs.
  void check() const;
  /// A buffer with what the host gives to the device now; none if it gives
  /// nothing.
  MPSRetained<id<MTLBuffer>> write(id<MTLDevice> device) const;
  /// Where in that buffer the bytes are that a kernel takes.
  size_t offsetOf(const MPSRefreshedBytes& refreshed) const {
    return find(&refreshed).offset;
  }
  /// Copies what the host gave for a step to where the step wants it.
  void encode(
      id<MTLBlitCommandEncoder> encoder,
      id<MTLBuffer> staging,
      const MPSHostRefreshStep& step) const;
  /// Copies what goes before all other work, if anything does.
  void encodeEarly(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging)
      const;
  /// What write() takes buffers from; for handlers that may run after the graph
  /// is gone.
  const std::shared_ptr<MPSStagingBuffers>& stagingBuffers() const {
    return staging_;
  }

 private:
  struct Refresh {
    MPSHostRefresh* refresh;
    // if the GPU copies the bytes; else a kernel takes them by setBytes:
    const MPSHostRefreshStep* step;
    size_t offset;
    bool is_early;
  };

  // of a step, or of what a kernel takes
  const Refresh& find(const void* owner) const {
    return refreshes_[places_.at(owner)];
  }

  // in the order of the steps
  std::vector<Refresh> refreshes_;
  // by owner, where in `refreshes_`
  std::unordered_map<const void*, size_t> places_;
  bool has_early_ = false;
  std::shared_ptr<MPSStagingBuffers> staging_;
};

} // namespace at::mps
