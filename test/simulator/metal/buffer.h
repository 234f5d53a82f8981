#pragma once

#import <Metal/Metal.h>

#import "metal/resource.h"

@class SimulatedHeap;

@interface SimulatedBuffer : SimulatedResource <MTLBuffer> {
 @public
  char* _pointer;
  NSUInteger _length;
  SimulatedHeap* _heap;
  NSUInteger _heapOffset;
  void (^_deallocator)(void*, NSUInteger);
  BOOL _ownsPages;
  BOOL _aliasable;
}
// The memory is the buffer's own, from the device. Nil when there is none.
- (instancetype)initWithLength:(NSUInteger)length
                       options:(MTLResourceOptions)options;
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

// Same check, and the object behind the protocol; `function` is the API call to
// blame.
SimulatedBuffer* checked_buffer(id<MTLBuffer> buffer, const char* function);

} // namespace mps_simulator
