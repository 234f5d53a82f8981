#pragma once

// What the host and the device exchange at each replay. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/mps/MPSCommandGraphRecording.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::mps {

class MPSReplayWatch;
class MPSStream;

/// Buffers of one length that the host writes and the GPU reads.
class MPSStagingBuffers {
 public:
  /// Unless `are_used_again`, the host may read a buffer when the GPU is done
  /// with it.
  explicit MPSStagingBuffers(size_t length, bool are_used_again = true)
      : length_(length), are_used_again_(are_used_again) {}
  /// One that is not in use. Waits for the GPU when those in use hold too many
  /// bytes, after it has committed the work of `stream` if that is not null.
  /// Raises if there is no memory.
  MPSRetained<id<MTLBuffer>> take(
      id<MTLDevice> device,
      MPSStream* stream = nullptr);
  /// `reader`, which the stream commits, is the last command buffer that reads
  /// it. Returns a number for giveBack().
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
  const bool are_used_again_;
  std::mutex mutex_;
  std::vector<MPSRetained<id<MTLBuffer>>> free_;
  // the oldest first
  std::deque<Lent> lent_;
  size_t last_number_ = 0;
};

/// What the steps exchange with the host, in a staging buffer of each replay:
/// what host refreshes give to the device, and statuses, which the host reads.
class MPSReplayRefreshes {
 public:
  /// The steps must stay where they are.
  explicit MPSReplayRefreshes(const std::deque<MPSCommandStep>& steps);

  /// Whether the bytes of a step go to the device before all other work. Those
  /// whose destination is their own do, together: earlier replays have read
  /// theirs by then, since the GPU works in the order of the stream.
  bool isInFirstBlit(const MPSCommandStep& step) const;
  /// Raises when the host could not give the device what a step needs.
  void check() const;
  /// A staging buffer that is not in use; none if the steps need none.
  MPSRetained<id<MTLBuffer>> takeStaging(
      id<MTLDevice> device,
      MPSStream* stream = nullptr) const;
  /// Writes what the host gives to the device now.
  void write(id<MTLBuffer> staging) const;
  size_t stagingBytes() const {
    return staging_->length();
  }
  /// Where the bytes of an MPSHostRefreshStep, MPSRefreshedBytes or
  /// MPSStatusStep lie in that buffer.
  size_t offsetOf(const void* owner) const {
    return offsets_.at(owner);
  }
  /// Copies to the device what goes before all other work, if anything does.
  void encodeFirstBlit(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging)
      const;
  /// Lets a later replay have the buffer when the GPU is done with `reader`,
  /// the last command buffer that uses it.
  void giveBackAfter(MPSReplayWatch& reader, MPSRetained<id<MTLBuffer>> staging)
      const;

 private:
  // with the offsets of their bytes, in the order of the steps
  std::vector<std::pair<MPSHostRefresh*, size_t>> refreshes_;
  std::unordered_map<const void*, size_t> offsets_;
  // by the offsets of their bytes, which follow the order of the steps
  std::map<size_t, const MPSHostRefreshStep*> in_first_blit_;
  // shared with handlers that may run after the graph is gone
  std::shared_ptr<MPSStagingBuffers> staging_;
};

} // namespace at::mps
