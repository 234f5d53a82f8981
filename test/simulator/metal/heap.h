#pragma once

#import <Metal/Metal.h>

#import "metal/resource.h"

#include <map>
#include <mutex>

@interface SimulatedHeap : SimulatedResource <MTLHeap> {
 @public
  char* _pointer;
 @private
  MTLHeapType _type;
  NSUInteger _size;
  NSUInteger _usedSize;
  std::mutex _mutex;
  // Offset → length of what is taken.
  std::map<NSUInteger, NSUInteger> _ranges;
}
// Nil when there is no memory.
- (instancetype)initWithDescriptor:(MTLHeapDescriptor*)descriptor;
- (void)releaseRangeAtOffset:(NSUInteger)offset;
@end

namespace mps_simulator {

// What a buffer of `length` bytes takes in a heap.
MTLSizeAndAlign heap_size_and_align(NSUInteger length);

} // namespace mps_simulator
