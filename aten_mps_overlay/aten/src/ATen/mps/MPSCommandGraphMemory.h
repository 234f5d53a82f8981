#pragma once

// The memory that a graph keeps: a pool of blocks that captures allocated, and
// pinned blocks from before them.

#include <ATen/mps/MPSAllocatorInterface.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <unordered_set>
#include <vector>

namespace at::mps {

/// Keeps blocks of the allocator away from others until it is destroyed.
class MPSPinnedBuffers {
 public:
  MPSPinnedBuffers() = default;
  MPSPinnedBuffers(const MPSPinnedBuffers&) = delete;
  MPSPinnedBuffers& operator=(const MPSPinnedBuffers&) = delete;
  ~MPSPinnedBuffers();

  bool contains(const void* buffer) const {
    return buffers_.count(buffer) > 0;
  }
  /// Pins the block of a buffer. Does nothing for other buffers, and for blocks
  /// that are kept already: those here, and those of the capture underway.
  void pin(const void* buffer);
  /// Takes over the pins of blocks that are not here.
  void adopt(const std::vector<const void*>& buffers) {
    buffers_.insert(buffers.begin(), buffers.end());
  }
  const std::unordered_set<const void*>& buffers() const {
    return buffers_;
  }

 private:
  std::unordered_set<const void*> buffers_;
};

/// Keeps the memory of a pool until it is destroyed.
class MPSPoolReference {
 public:
  explicit MPSPoolReference(IMPSAllocator::CapturePoolId pool);
  MPSPoolReference(const MPSPoolReference&) = delete;
  MPSPoolReference& operator=(const MPSPoolReference&) = delete;
  ~MPSPoolReference();

  IMPSAllocator::CapturePoolId pool() const {
    return pool_;
  }

 private:
  const IMPSAllocator::CapturePoolId pool_;
};

/// Counts the replays that overwrite memory of a recording: its own, and those
/// of earlier recordings of the same pool, whose free memory it uses.
class MPSOverwrites {
 public:
  /// Follows all recordings of the pool that exist.
  explicit MPSOverwrites(IMPSAllocator::CapturePoolId pool);
  MPSOverwrites(const MPSOverwrites&) = delete;
  MPSOverwrites& operator=(const MPSOverwrites&) = delete;
  ~MPSOverwrites();

  size_t count() const {
    return count_;
  }
  /// Counts a replay of the recording.
  void countReplay() const;

 private:
  const IMPSAllocator::CapturePoolId pool_;
  std::list<const MPSOverwrites*>::const_iterator place_;
  mutable std::atomic<size_t> count_{0};
};

} // namespace at::mps
