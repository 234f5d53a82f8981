#pragma once

// The memory that a graph keeps. Plain C++.

#include <ATen/mps/MPSAllocatorInterface.h>

#include <atomic>
#include <list>
#include <unordered_set>

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
  /// Takes over one pin; returns false, and takes nothing, when the buffer is
  /// here already.
  bool adopt(const void* buffer) {
    return buffers_.insert(buffer).second;
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
