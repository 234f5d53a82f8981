#pragma once

// The memory that graph captures allocate from. Objective-C++ only; for the
// allocator.

#include <Metal/Metal.h>

#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::mps::HeapAllocator {

/// Hands out buffers that lie side by side in a few heaps, and takes their
/// ranges back in any order. Ranges that were given back are joined and given
/// to buffers of any size, so that the arena grows no further than what is in
/// use at one time asks for. Not thread-safe.
class CaptureArena {
 public:
  explicit CaptureArena(id<MTLDevice> device) : device_(device) {}
  ~CaptureArena();
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
  /// Lets go of all buffers that are not in use, and of heaps that have none in
  /// use. No more is to be allocated.
  void retire();
  /// Its heaps, with their sizes.
  std::vector<std::pair<const void*, size_t>> heaps() const;

  /// Bytes in use.
  size_t used() const {
    return used_;
  }
  /// High-water mark: the bytes of its heaps that were ever handed out.
  size_t reserved() const {
    return reserved_;
  }

 private:
  using Range = std::pair<size_t, size_t>; // offset and length

  struct Segment {
    id<MTLHeap> heap = nil;
    MTLResourceOptions options = 0;
    // takes only small buffers
    bool is_for_small = false;
    size_t size = 0;
    // all that lies beyond was never in use
    size_t reserved = 0;
    size_t used = 0;
    std::map<size_t, size_t> holes; // below `reserved`, by offset
    // one buffer for each range that was ever handed out: the next one of the
    // same range gets it again
    std::map<Range, id<MTLBuffer>> buffers;
  };
  struct Place {
    size_t segment;
    Range range;
  };

  bool takeHole(Segment& segment, size_t size, size_t alignment, Range& range);
  bool takeNew(Segment& segment, size_t size, size_t alignment, Range& range);
  void giveBack(Segment& segment, Range range);
  static void letGo(Segment& segment);

  const id<MTLDevice> device_;
  std::vector<Segment> segments_;
  std::unordered_map<const void*, Place> places_;
  size_t used_ = 0;
  size_t reserved_ = 0;
  bool retired_ = false;
};

} // namespace at::mps::HeapAllocator
