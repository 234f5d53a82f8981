#import "metal/buffer.h"

#include "foundation/object_memory.h"
#include "metal/heap.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

@implementation SimulatedBuffer

- (instancetype)initWithLength:(NSUInteger)length
                       options:(MTLResourceOptions)options {
  if ((self = [super initWithOptions:options])) {
    _pointer = static_cast<char*>(allocate_pages(length));
    if (!_pointer) {
      [self release];
      return nil;
    }
    _ownsPages = YES;
    _length = length;
    poison(_pointer, _length);
  }
  return self;
}

- (instancetype)initWithPointer:(void*)pointer
                         length:(NSUInteger)length
                        options:(MTLResourceOptions)options
                    deallocator:(void (^)(void*, NSUInteger))deallocator {
  if ((self = [super initWithOptions:options])) {
    _pointer = static_cast<char*>(pointer);
    _length = length;
    _deallocator = [deallocator copy];
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
    _pointer = heap->_pointer + offset;
    _length = length;
    poison(_pointer, _length);
  }
  return self;
}

- (void)dealloc {
  if (_ownsPages) {
    free_pages(_pointer, _length);
  } else if (_heap) {
    poison(_pointer, _length);
    [_heap releaseRangeAtOffset:_heapOffset];
    [_heap release];
  } else if (_deallocator) {
    _deallocator(_pointer, _length);
    [_deallocator release];
  }
  _pointer = nullptr;
  [super dealloc];
}

- (NSUInteger)length {
  COUNT_CALL();
  return _length;
}

- (uint64_t)gpuAddress {
  COUNT_CALL();
  return reinterpret_cast<uint64_t>(_pointer);
}

- (void*)contents {
  COUNT_CALL();
  return self.storageMode == MTLStorageModePrivate ? nullptr : _pointer;
}

- (void)didModifyRange:(NSRange)range {
  COUNT_CALL();
  VALIDATE(
      self.storageMode == MTLStorageModeManaged,
      "only a buffer with managed storage is told of changes");
  VALIDATE(
      range.location <= _length && range.length <= _length - range.location,
      "range {%lu, %lu} is not inside the buffer of %lu bytes",
      range.location,
      range.length,
      _length);
}

- (id<MTLHeap>)heap {
  return _heap;
}

- (NSUInteger)heapOffset {
  return _heapOffset;
}

- (NSUInteger)allocatedSize {
  const auto page = page_size();
  return _heap ? _length : (_length + page - 1) / page * page;
}

- (void)makeAliasable {
  COUNT_CALL();
  VALIDATE(_heap, "the buffer does not come from a heap");
  UNSUPPORTED_CALL();
}

- (BOOL)isAliasable {
  return _aliasable;
}

- (void)purge {
  // The state of a heap's buffers is the heap's.
  if (!_heap) {
    poison(_pointer, _length);
  }
}

- (void)addDebugMarker:(NSString*)marker range:(NSRange)range {
  COUNT_CALL();
  VALIDATE(
      range.location <= _length && range.length <= _length - range.location,
      "range {%lu, %lu} is not inside the buffer of %lu bytes",
      range.location,
      range.length,
      _length);
}

- (void)removeAllDebugMarkers {
  COUNT_CALL();
}

- (id<MTLBuffer>)remoteStorageBuffer {
  return nil;
}

- (id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor*)descriptor
                                    offset:(NSUInteger)offset
                               bytesPerRow:(NSUInteger)bytesPerRow {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (id<MTLBuffer>)newRemoteBufferViewForDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

@end

namespace mps_simulator {

SimulatedBuffer* checked_buffer(id<MTLBuffer> buffer, const char* function) {
  static const Class buffer_class = [SimulatedBuffer class];
  if (!buffer || object_getClass(buffer) == buffer_class) {
    return (SimulatedBuffer*)buffer;
  }
  violation(
      "%s: %s",
      function,
      destroyed_object_class(buffer)
          ? "the buffer has been released"
          : "the buffer does not belong to this device");
}

void* host_pointer(id<MTLBuffer> buffer) {
  auto* simulated = checked_buffer(buffer, "host_pointer()");
  return simulated ? simulated->_pointer : nullptr;
}

} // namespace mps_simulator
