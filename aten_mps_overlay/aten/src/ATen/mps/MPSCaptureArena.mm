#include <ATen/mps/MPSCaptureArena.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace at::mps::HeapAllocator {

static constexpr size_t kHeapRounding = size_t(64) << 10;
// what most small graphs need, in one piece: memory of two heaps is never joined
static constexpr size_t kSmallestHeap = size_t(1) << 20;
static constexpr size_t kLargestStep = size_t(1) << 30;
// sums and scalars often outlive the large buffers around them, and would split the room for the next large buffer
static constexpr size_t kLargestSmall = 256;

static size_t roundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

CaptureArena::~CaptureArena() {
  for (auto& segment : segments_) {
    letGo(segment);
    [segment.heap release];
  }
}

// The smallest hole that is large enough: large ones stay for large buffers.
bool CaptureArena::takeHole(Segment& segment, size_t size, size_t alignment, Range& range) {
  auto best = segment.holes.end();
  for (auto hole = segment.holes.begin(); hole != segment.holes.end(); ++hole) {
    const size_t waste = roundUp(hole->first, alignment) - hole->first;
    if (hole->second >= waste + size && (best == segment.holes.end() || hole->second < best->second)) {
      best = hole;
    }
  }
  if (best == segment.holes.end()) {
    return false;
  }
  const auto [offset, length] = *best;
  const size_t start = roundUp(offset, alignment);
  segment.holes.erase(best);
  if (start > offset) {
    segment.holes[offset] = start - offset;
  }
  if (offset + length > start + size) {
    segment.holes[start + size] = offset + length - start - size;
  }
  range = {start, size};
  return true;
}

// Memory that was never in use, together with the hole before it.
bool CaptureArena::takeNew(Segment& segment, size_t size, size_t alignment, Range& range) {
  size_t offset = segment.reserved;
  auto last = segment.holes.empty() ? segment.holes.end() : std::prev(segment.holes.end());
  if (last != segment.holes.end() && last->first + last->second == segment.reserved) {
    offset = last->first;
  } else {
    last = segment.holes.end();
  }
  const size_t start = roundUp(offset, alignment);
  if (start + size > segment.size) {
    return false;
  }
  if (last != segment.holes.end()) {
    segment.holes.erase(last);
  }
  if (start > offset) {
    segment.holes[offset] = start - offset;
  }
  reserved_ += start + size - segment.reserved;
  segment.reserved = start + size;
  range = {start, size};
  return true;
}

id<MTLBuffer> CaptureArena::allocate(size_t size, size_t alignment, MTLResourceOptions options) {
  Range range;
  const bool is_small = size <= kLargestSmall;
  const auto take = [&](auto method) {
    auto segment = segments_.begin();
    while (segment != segments_.end() &&
           !(segment->options == options && segment->is_for_small == is_small &&
             (this->*method)(*segment, size, alignment, range))) {
      ++segment;
    }
    return segment;
  };
  auto segment = take(&CaptureArena::takeHole);
  if (segment == segments_.end()) {
    segment = take(&CaptureArena::takeNew);
  }
  if (segment == segments_.end()) {
    return nil;
  }
  auto& buffer = segment->buffers[range];
  if (!buffer) {
    buffer = [segment->heap newBufferWithLength:size options:options offset:range.first];
    TORCH_INTERNAL_ASSERT(buffer);
  }
  places_[buffer] = {static_cast<size_t>(segment - segments_.begin()), range};
  segment->used += size;
  used_ += size;
  return buffer;
}

bool CaptureArena::grow(size_t size, size_t limit, MTLResourceOptions options) {
  const bool is_small = size <= kLargestSmall;
  size_t held = 0;
  for (const auto& segment : segments_) {
    held += segment.options == options && segment.is_for_small == is_small ? segment.size : 0;
  }
  // doubling keeps the heaps few; under pressure the need alone has to do
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
      auto& segment = segments_.emplace_back();
      segment.heap = heap;
      segment.options = options;
      segment.is_for_small = is_small;
      segment.size = heap.size;
      return true;
    }
  }
  return false;
}

void CaptureArena::giveBack(Segment& segment, Range range) {
  auto [hole, is_new] = segment.holes.emplace(range);
  TORCH_INTERNAL_ASSERT(is_new);
  const auto next = std::next(hole);
  if (next != segment.holes.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    segment.holes.erase(next);
  }
  if (hole != segment.holes.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      segment.holes.erase(hole);
    }
  }
}

std::vector<std::pair<const void*, size_t>> CaptureArena::heaps() const {
  std::vector<std::pair<const void*, size_t>> heaps;
  for (const auto& segment : segments_) {
    heaps.emplace_back(segment.heap, segment.size);
  }
  return heaps;
}

void CaptureArena::free(id<MTLBuffer> buffer) {
  const auto place = places_.find(buffer);
  TORCH_INTERNAL_ASSERT(place != places_.end());
  auto& segment = segments_[place->second.segment];
  const auto range = place->second.range;
  places_.erase(place);
  giveBack(segment, range);
  segment.used -= range.second;
  used_ -= range.second;
  if (retired_) {
    segment.buffers.erase(range);
    [buffer release];
    if (segment.used == 0) {
      [segment.heap release];
      segment.heap = nil;
    }
  }
}

void CaptureArena::letGo(Segment& segment) {
  for (const auto& [range, buffer] : segment.buffers) {
    [buffer release];
  }
  segment.buffers.clear();
}

void CaptureArena::retire() {
  retired_ = true;
  for (auto& segment : segments_) {
    for (auto entry = segment.buffers.begin(); entry != segment.buffers.end();) {
      if (places_.count(entry->second)) {
        ++entry;
      } else {
        [entry->second release];
        entry = segment.buffers.erase(entry);
      }
    }
    if (segment.used == 0) {
      [segment.heap release];
      segment.heap = nil;
    }
  }
}

} // namespace at::mps::HeapAllocator
