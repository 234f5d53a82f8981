#import "metal/buffer.h"

#include "foundation/copying.h"
#include "metal/gpu_order.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/sanitizer.h"

using namespace mps_simulator;

namespace {

constexpr NSUInteger kHeapAlignment = 256;

NSUInteger round_up(NSUInteger value, NSUInteger alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

MTLResourceOptions options_of(MTLHeapDescriptor* descriptor) {
  return descriptor.cpuCacheMode << MTLResourceCPUCacheModeShift |
      descriptor.storageMode << MTLResourceStorageModeShift |
      descriptor.hazardTrackingMode << MTLResourceHazardTrackingModeShift;
}

} // namespace

namespace mps_simulator {

MTLSizeAndAlign heap_size_and_align(NSUInteger length) {
  return {round_up(length, kHeapAlignment), kHeapAlignment};
}

} // namespace mps_simulator

@implementation MTLHeapDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _storageMode = MTLStorageModePrivate;
  }
  return self;
}

// The same value in two forms, as in Metal: the options are made of the modes.
GETTER(MTLResourceOptions, resourceOptions, options_of(self))

- (void)setResourceOptions:(MTLResourceOptions)options {
  COUNT_CALL();
  _cpuCacheMode = static_cast<MTLCPUCacheMode>(options & 0xf);
  _storageMode = static_cast<MTLStorageMode>(options >> MTLResourceStorageModeShift & 0xf);
  _hazardTrackingMode = static_cast<MTLHazardTrackingMode>(options >> MTLResourceHazardTrackingModeShift & 0x3);
}

COPIES_PROPERTIES

@end

@implementation SimulatedHeap

- (instancetype)initWithDescriptor:(MTLHeapDescriptor*)descriptor {
  if ((self = [super initWithOptions:options_of(descriptor)])) {
    _size = round_up(descriptor.size, page_size());
    _pointer = static_cast<char*>(allocate_pages(_size));
    if (!_pointer) {
      [self release];
      return nil;
    }
    // Until a buffer is made there, and again when it is gone.
    sanitizer::forbid_memory(_pointer, _size);
  }
  return self;
}

- (void)dealloc {
  if (_pointer) {
    sanitizer::allow_memory(_pointer, _size);
    GpuOrder::instance().forget(_pointer, _pointer + _size, self);
    free_pages(_pointer, _size);
  }
  [super dealloc];
}

GETTER(MTLHeapType, type, MTLHeapTypeAutomatic)
COUNTED_GETTER(NSUInteger, size, _size)

GETTER(NSUInteger, currentAllocatedSize, _size)

// Untracked resources of a heap are Metal's default.
- (MTLHazardTrackingMode)hazardTrackingMode {
  const auto mode = [super hazardTrackingMode];
  return mode == MTLHazardTrackingModeDefault ? MTLHazardTrackingModeUntracked : mode;
}

GETTER(bool, isUntracked, self.hazardTrackingMode == MTLHazardTrackingModeUntracked)

- (NSUInteger)maxAvailableSizeWithAlignment:(NSUInteger)alignment {
  COUNT_CALL();
  VALIDATE(alignment && !(alignment & (alignment - 1)), "alignment %lu is not a power of two", alignment);
  const std::lock_guard<std::mutex> lock(_mutex);
  alignment = alignment < kHeapAlignment ? kHeapAlignment : alignment;
  NSUInteger largest = 0;
  NSUInteger gap = 0;
  const auto consider = [&](NSUInteger end) {
    const NSUInteger start = round_up(gap, alignment);
    if (start < end && end - start > largest) {
      largest = end - start;
    }
  };
  for (const auto& [offset, range] : _ranges) {
    consider(offset);
    gap = offset + range.length;
  }
  consider(_size);
  return largest;
}

- (void)checkOptions:(MTLResourceOptions)options function:(const char*)function {
  if (!settings().validation) {
    return;
  }
  const auto mode = static_cast<MTLStorageMode>(options >> MTLResourceStorageModeShift & 0xf);
  if (mode != self.storageMode) {
    violation("%s: storage mode %lu differs from the heap's %lu",
              function,
              static_cast<NSUInteger>(mode),
              static_cast<NSUInteger>(self.storageMode));
  }
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  COUNT_CALL();
  VALIDATE(length > 0, "a buffer needs at least one byte");
  [self checkOptions:options function:__func__];
  const auto taken = heap_size_and_align(length).size;
  NSUInteger offset = 0;
  {
    const std::lock_guard<std::mutex> lock(_mutex);
    for (const auto& [start, range] : _ranges) {
      if (start - offset >= taken) {
        break;
      }
      offset = start + range.length;
    }
    if (_size - offset < taken) {
      return nil;
    }
    _ranges.emplace(offset, Range{taken, nil});
  }
  return [[SimulatedBuffer alloc] initWithHeap:self offset:offset length:length options:options];
}

- (void)setBuffer:(SimulatedBuffer*)buffer ofRangeAtOffset:(NSUInteger)offset {
  const std::lock_guard<std::mutex> lock(_mutex);
  _ranges.at(offset).buffer = buffer;
}

- (void)releaseRangeAtOffset:(NSUInteger)offset {
  const std::lock_guard<std::mutex> lock(_mutex);
  const auto range = _ranges.find(offset);
  sanitizer::forbid_memory(_pointer + offset, range->second.length);
  _ranges.erase(range);
}

- (void)purge {
  const std::lock_guard<std::mutex> lock(_mutex);
  for (const auto& [offset, range] : _ranges) {
    if (range.buffer) {
      poison(range.buffer->_pointer, range.buffer->_length);
    }
  }
}

NOT_SIMULATED(- (id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor*)descriptor)

@end
