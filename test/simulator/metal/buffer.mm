#import "metal/buffer.h"

#include "metal/kernel_checks.h"
#import "metal/device.h"
#include "metal/gpu_order.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/sanitizer.h"

@implementation SimulatedResource

- (instancetype)initWithOptions:(MTLResourceOptions)options {
  if ((self = [super init])) {
    _resourceOptions = options;
    _purgeableState = MTLPurgeableStateNonVolatile;
  }
  return self;
}

GETTER(MTLResourceOptions, resourceOptions, _resourceOptions)
GETTER(MTLCPUCacheMode, cpuCacheMode, static_cast<MTLCPUCacheMode>(_resourceOptions & 0xf))
GETTER(MTLStorageMode, storageMode, static_cast<MTLStorageMode>(_resourceOptions >> MTLResourceStorageModeShift & 0xf))

- (MTLHazardTrackingMode)hazardTrackingMode {
  return static_cast<MTLHazardTrackingMode>(_resourceOptions >> MTLResourceHazardTrackingModeShift & 0x3);
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  COUNT_CALL();
  const auto previous = _purgeableState;
  if (state != MTLPurgeableStateKeepCurrent) {
    _purgeableState = state;
    // The system may throw volatile content away at any moment, so it does.
    if (state == MTLPurgeableStateEmpty || state == MTLPurgeableStateVolatile) {
      [self purge];
    }
  }
  return previous;
}

- (void)purge {
}

@end

using namespace mps_simulator;

@implementation SimulatedBuffer

// Of a heap, all buffers have its mode, whatever their own options say.
- (MTLHazardTrackingMode)hazardTrackingMode {
  const bool untracked = _heap ? [_heap isUntracked] : [super hazardTrackingMode] == MTLHazardTrackingModeUntracked;
  return untracked ? MTLHazardTrackingModeUntracked : MTLHazardTrackingModeTracked;
}

- (void)noteTracking {
  _untracked = self.hazardTrackingMode == MTLHazardTrackingModeUntracked;
  if (_untracked) {
    GpuOrder::instance().add_untracked();
  }
}

// Once the buffer has its memory, before anything is in it.
- (void)makeHostView {
  _hostStart = _pointer;
  const auto mode = self.storageMode;
  char* pages = _memory ? _memory.pages : _ownsPages ? _pointer : nullptr;
  if (!pages || mode == MTLStorageModePrivate || mode == MTLStorageModeMemoryless) {
    return;
  }
  const size_t length = _memory ? _memory.pages_length : round_to_pages(_length);
  _hostView = HostView::create(pages, length);
  if (_hostView) {
    _hostStart = _hostView->address() + (_pointer - pages);
  }
}

- (instancetype)initWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  if ((self = [super initWithOptions:options])) {
    _memory = allocate_guarded(length);
    if (_memory) {
      _pointer = _memory.start;
      count_allocated(static_cast<ptrdiff_t>(_memory.pages_length));
    } else {
      _pointer = static_cast<char*>(allocate_pages(length));
      if (!_pointer) {
        [self release];
        return nil;
      }
      _ownsPages = YES;
    }
    _length = length;
    [self noteTracking];
    [self makeHostView];
    poison(_pointer, _length);
    map_buffer(self);
  }
  return self;
}

- (instancetype)initWithPointer:(void*)pointer
                         length:(NSUInteger)length
                        options:(MTLResourceOptions)options
                    deallocator:(void (^)(void*, NSUInteger))deallocator {
  if ((self = [super initWithOptions:options])) {
    _pointer = static_cast<char*>(pointer);
    _hostStart = _pointer;
    _isHostMemory = true;
    _length = length;
    _deallocator = [deallocator copy];
    [self noteTracking];
    map_buffer(self);
  }
  return self;
}

- (instancetype)initWithHeap:(SimulatedHeap*)heap
                      offset:(NSUInteger)offset
                      length:(NSUInteger)length
                     options:(MTLResourceOptions)options {
  if ((self = [super initWithOptions:options])) {
    _heap = [heap retain];
    _heapOffset = offset;
    // The range in the heap is only booked: pages of its own tell the buffer's
    // end from its neighbour's beginning.
    _memory = allocate_guarded(length);
    _pointer = _memory ? _memory.start : heap->_pointer + offset;
    _length = length;
    [self noteTracking];
    if (!_memory) {
      sanitizer::allow_memory(_pointer, _length);
    }
    [self makeHostView];
    poison(_pointer, _length);
    map_buffer(self);
    [heap setBuffer:self ofRangeAtOffset:offset];
  }
  return self;
}

- (void)dealloc {
  if (_pointer) {
    unmap_buffer(self);
    GpuOrder::instance().buffer_gone(self);
  }
  if (_heap) {
    if (!_memory) {
      poison(_pointer, _length);
    }
    [_heap releaseRangeAtOffset:_heapOffset];
    [_heap release];
  } else if (_memory) {
    count_allocated(-static_cast<ptrdiff_t>(_memory.pages_length));
  }
  if (_memory) {
    free_guarded(_memory);
  } else if (_ownsPages) {
    free_pages(_pointer, _length);
  } else if (_deallocator) {
    _deallocator(_pointer, _length);
    [_deallocator release];
  }
  _pointer = nullptr;
  [super dealloc];
}

COUNTED_GETTER(NSUInteger, length, _length)
COUNTED_GETTER(uint64_t, gpuAddress, reinterpret_cast<uint64_t>(_pointer))
COUNTED_GETTER(void*, contents, self.storageMode == MTLStorageModePrivate ? nullptr : _hostStart)
GETTER(id<MTLHeap>, heap, _heap)
GETTER(NSUInteger, heapOffset, _heapOffset)

- (void)purge {
  // The state of a heap's buffers is the heap's.
  if (!_heap) {
    poison(_pointer, _length);
  }
}

@end

namespace mps_simulator {

SimulatedBuffer* checked_buffer(id<MTLBuffer> buffer, const char* function) {
  static const Class buffer_class = [SimulatedBuffer class];
  return buffer ? (SimulatedBuffer*)checked_object(buffer, buffer_class, "buffer", function) : nil;
}

void* host_pointer(id<MTLBuffer> buffer) {
  auto* simulated = checked_buffer(buffer, "host_pointer()");
  return simulated ? simulated->_pointer : nullptr;
}

} // namespace mps_simulator
