#pragma once

// The memory that a graph keeps: the pool that captures allocate from, and
// pinned blocks of the allocator.

#include <ATen/mps/MPSAllocatorInterface.h>

#include <Metal/Metal.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace at::mps::HeapAllocator {

/// Hands out buffers that lie side by side in a few heaps, and takes their
/// ranges back in any order. Ranges that were given back are joined and given
/// to buffers of any size, so that the arena grows little further than what is
/// in use at one time asks for. Not thread-safe.
class CaptureArena {
 public:
  explicit CaptureArena(id<MTLDevice> device) : device_(device) {}
  ~CaptureArena() {
    trim();
  }
  CaptureArena(const CaptureArena&) = delete;
  CaptureArena& operator=(const CaptureArena&) = delete;

  /// Returns a buffer of which the arena keeps the reference, or nil when none
  /// of its heaps has room.
  id<MTLBuffer> allocate(
      size_t size,
      size_t alignment,
      MTLResourceOptions options);
  /// Adds a heap with room for at least `size` bytes, within `limit` bytes.
  /// Returns false when there is none to be had.
  bool grow(size_t size, size_t limit, MTLResourceOptions options);
  void free(id<MTLBuffer> buffer);
  /// Releases the buffers that were given back. Recorded steps retain those
  /// that they use.
  void dropIdle();
  /// Releases the heaps that have no buffer in use.
  void trim();

  /// Bytes in use.
  size_t used() const {
    return used_;
  }
  /// High-water mark: the bytes of its heaps that were ever handed out.
  size_t reserved() const {
    return reserved_;
  }

 private:
  struct Segment {
    id<MTLHeap> heap = nil;
    MTLResourceOptions options = 0;
    // takes only small buffers
    bool is_for_small = false;
    size_t size = 0;
    // all that lies beyond was never in use
    size_t reserved = 0;
    size_t used = 0;
    // lengths of the free ranges by offset, with that beyond `reserved`
    std::map<size_t, size_t> holes;
  };
  struct Place {
    Segment* segment;
    size_t offset;
    size_t size;
  };

  bool take(Segment& segment, size_t size, size_t alignment, size_t& offset);

  const id<MTLDevice> device_;
  std::list<Segment> segments_;
  std::unordered_map<const void*, Place> places_;
  // Buffers that were given back, by segment, offset and size. A capture that
  // gets the same range again gets the same object, as in eager.
  std::map<std::tuple<Segment*, size_t, size_t>, id<MTLBuffer>> idle_;
  size_t used_ = 0;
  size_t reserved_ = 0;
};

} // namespace at::mps::HeapAllocator

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
