#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"
#include "metal/guarded_memory.h"
#include "metal/host_view.h"

#include <map>
#include <memory>
#include <mutex>

// What buffers and heaps have in common.
@interface SimulatedResource : SimulatedObject {
 @public
  MTLResourceOptions _resourceOptions;
  MTLPurgeableState _purgeableState;
}
- (instancetype)initWithOptions:(MTLResourceOptions)options;
@property(readonly) MTLCPUCacheMode cpuCacheMode;
@property(readonly) MTLStorageMode storageMode;
@property(readonly) MTLHazardTrackingMode hazardTrackingMode;
@property(readonly) MTLResourceOptions resourceOptions;
- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state;
// Called when the content may be thrown away.
- (void)purge;
@end

@class SimulatedHeap;

@interface SimulatedBuffer : SimulatedResource <MTLBuffer> {
 @public
  char* _pointer;
  // Pages between guards, which `_pointer` points into; empty when there are none.
  mps_simulator::GuardedMemory _memory;
  NSUInteger _length;
  // Where the host sees the content, if not where the GPU does.
  std::shared_ptr<mps_simulator::HostView> _hostView;
  char* _hostStart;
  // Made without a copy of memory that the program owns.
  bool _isHostMemory;
  SimulatedHeap* _heap;
  NSUInteger _heapOffset;
  void (^_deallocator)(void*, NSUInteger);
  BOOL _ownsPages;
  // Metal orders nothing that uses it.
  bool _untracked;
}
// The memory is the buffer's own, from the device. Nil when there is none.
- (instancetype)initWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (instancetype)initWithPointer:(void*)pointer
                         length:(NSUInteger)length
                        options:(MTLResourceOptions)options
                    deallocator:(void (^)(void*, NSUInteger))deallocator;
- (instancetype)initWithHeap:(SimulatedHeap*)heap
                      offset:(NSUInteger)offset
                      length:(NSUInteger)length
                     options:(MTLResourceOptions)options;
@end

namespace mps_simulator {

// The memory of a buffer in any storage mode; nullptr for nil. Raises a
// violation for an object that is not a live buffer of the simulated device.
void* host_pointer(id<MTLBuffer> buffer);

// Same check, and the object behind the protocol; `function` is the API call
// that errors name.
SimulatedBuffer* checked_buffer(id<MTLBuffer> buffer, const char* function);

} // namespace mps_simulator

@class SimulatedBuffer;

@interface SimulatedHeap : SimulatedResource <MTLHeap> {
 @public
  // For buffers without pages of their own. Not touched before it is used.
  char* _pointer;
 @private
  NSUInteger _size;
  std::mutex _mutex;
  // What is taken, by its offset, and by which buffer: null until that is made.
  struct Range {
    NSUInteger length;
    SimulatedBuffer* buffer;
  };
  std::map<NSUInteger, Range> _ranges;
}
// Nil when there is no memory.
- (instancetype)initWithDescriptor:(MTLHeapDescriptor*)descriptor;
- (bool)isUntracked;
- (void)setBuffer:(SimulatedBuffer*)buffer ofRangeAtOffset:(NSUInteger)offset;
- (void)releaseRangeAtOffset:(NSUInteger)offset;
@end

namespace mps_simulator {

// What a buffer of `length` bytes takes in a heap.
MTLSizeAndAlign heap_size_and_align(NSUInteger length);

} // namespace mps_simulator
