#include <ATen/mps/MPSCommandGraphMemory.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

namespace at::mps::HeapAllocator {

static constexpr size_t kHeapRounding = size_t(64) << 10;
// what most small graphs need, in one piece: memory of two heaps is never joined
static constexpr size_t kSmallestHeap = size_t(1) << 20;
static constexpr size_t kLargestStep = size_t(1) << 30;
// Sums and scalars often outlive the large buffers around them, and would split the room for the next large buffer.
static constexpr size_t kLargestSmall = 256;

static size_t roundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Takes from the smallest hole that is large enough, so that large ones stay for large buffers. The last hole, which
// was never in use, comes after all others.
bool CaptureArena::take(Segment& segment, size_t size, size_t alignment, size_t& offset) {
  auto best = segment.holes.end();
  for (auto hole = segment.holes.begin(); hole != segment.holes.end(); ++hole) {
    const bool fits = roundUp(hole->first, alignment) + size <= hole->first + hole->second;
    const bool is_last = hole->first + hole->second == segment.size;
    if (fits && (best == segment.holes.end() || (!is_last && hole->second < best->second))) {
      best = hole;
    }
  }
  if (best == segment.holes.end()) {
    return false;
  }
  const auto [start, length] = *best;
  offset = roundUp(start, alignment);
  segment.holes.erase(best);
  if (offset > start) {
    segment.holes[start] = offset - start;
  }
  if (start + length > offset + size) {
    segment.holes[offset + size] = start + length - offset - size;
  }
  if (offset + size > segment.reserved) {
    reserved_ += offset + size - segment.reserved;
    segment.reserved = offset + size;
  }
  return true;
}

id<MTLBuffer> CaptureArena::allocate(size_t size, size_t alignment, MTLResourceOptions options) {
  for (auto& segment : segments_) {
    size_t offset = 0;
    if (segment.options == options && segment.is_for_small == (size <= kLargestSmall) &&
        take(segment, size, alignment, offset)) {
      const auto idle = idle_.extract(std::make_tuple(&segment, offset, size));
      id<MTLBuffer> buffer =
          idle ? idle.mapped() : [segment.heap newBufferWithLength:size options:options offset:offset];
      TORCH_INTERNAL_ASSERT(buffer);
      places_[buffer] = {&segment, offset, size};
      segment.used += size;
      used_ += size;
      return buffer;
    }
  }
  return nil;
}

bool CaptureArena::grow(size_t size, size_t limit, MTLResourceOptions options) {
  const bool is_small = size <= kLargestSmall;
  size_t held = 0;
  for (const auto& segment : segments_) {
    held += segment.options == options && segment.is_for_small == is_small ? segment.size : 0;
  }
  // Doubling keeps the heaps few. Under pressure the arena takes only what it needs.
  const size_t needed = roundUp(size, kHeapRounding);
  const size_t wanted = std::max(needed, std::clamp(held, kSmallestHeap, kLargestStep));
  for (const size_t length : {wanted, needed}) {
    if (length > limit) {
      continue;
    }
    MTLHeapDescriptor* descriptor = [MTLHeapDescriptor new];
    descriptor.size = length;
    // resourceOptions holds storage, cache and hazard tracking modes
    descriptor.resourceOptions = options;
    // Placement: a new buffer may overlap a freed one that recorded work still uses.
    descriptor.type = MTLHeapTypePlacement;
    id<MTLHeap> heap = [device_ newHeapWithDescriptor:descriptor];
    [descriptor release];
    if (heap) {
      auto& segment = segments_.emplace_back(Segment{heap, options, is_small, heap.size});
      segment.holes[0] = segment.size;
      return true;
    }
  }
  return false;
}

void CaptureArena::free(id<MTLBuffer> buffer) {
  const auto place = places_.find(buffer);
  TORCH_INTERNAL_ASSERT(place != places_.end());
  const auto [segment, offset, size] = place->second;
  places_.erase(place);
  idle_[{segment, offset, size}] = buffer;
  segment->used -= size;
  used_ -= size;
  auto& holes = segment->holes;
  auto hole = holes.emplace(offset, size).first;
  if (hole != holes.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == offset) {
      before->second += size;
      holes.erase(hole);
      hole = before;
    }
  }
  const auto next = std::next(hole);
  if (next != holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    holes.erase(next);
  }
}

void CaptureArena::dropIdle() {
  for (const auto& [range, buffer] : idle_) {
    [buffer release];
  }
  idle_.clear();
}

void CaptureArena::trim() {
  dropIdle();
  segments_.remove_if([](const Segment& segment) {
    if (segment.used == 0) {
      [segment.heap release];
    }
    return segment.used == 0;
  });
}

} // namespace at::mps::HeapAllocator

namespace at::mps {

MPSPinnedBuffers::~MPSPinnedBuffers() {
  // at once: the scalars among them wait for the queue
  getIMPSAllocator()->unpin(std::vector<const void*>(buffers_.begin(), buffers_.end()));
}

void MPSPinnedBuffers::pin(const void* buffer) {
  if (!contains(buffer) && getIMPSAllocator()->pin(buffer)) {
    buffers_.insert(buffer);
  }
}

MPSPoolReference::MPSPoolReference(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  getIMPSAllocator()->retainPool(pool_);
}

MPSPoolReference::~MPSPoolReference() {
  getIMPSAllocator()->releasePool(pool_);
}

// The recordings of each pool, in the order of their captures.
static std::mutex recordings_mutex;
static auto& recordingsOfPools() {
  // never destroyed: graphs may outlive all statics
  static auto* recordings = new std::map<IMPSAllocator::CapturePoolId, std::list<const MPSOverwrites*>>();
  return *recordings;
}

MPSOverwrites::MPSOverwrites(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  std::lock_guard lock(recordings_mutex);
  auto& recordings = recordingsOfPools()[pool_];
  place_ = recordings.insert(recordings.end(), this);
}

MPSOverwrites::~MPSOverwrites() {
  std::lock_guard lock(recordings_mutex);
  const auto recordings = recordingsOfPools().find(pool_);
  recordings->second.erase(place_);
  if (recordings->second.empty()) {
    recordingsOfPools().erase(recordings);
  }
}

void MPSOverwrites::countReplay() const {
  std::lock_guard lock(recordings_mutex);
  const auto& recordings = recordingsOfPools().at(pool_);
  std::for_each(std::list<const MPSOverwrites*>::const_iterator(place_), recordings.end(), [](const auto* recording) {
    recording->count_++;
  });
}

} // namespace at::mps
