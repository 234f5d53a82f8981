#pragma once

#import <Metal/Metal.h>

#import "metal/resource.h"

#include <map>
#include <mutex>
#include <set>

@class SimulatedBuffer;

@interface SimulatedHeap : SimulatedResource <MTLHeap> {
 @public
  // For buffers without pages of their own. Not touched before it is used.
  char* _pointer;
 @private
  MTLHeapType _type;
  NSUInteger _size;
  NSUInteger _usedSize;
  std::mutex _mutex;
  // Offset → length of what is taken.
  std::map<NSUInteger, NSUInteger> _ranges;
  std::set<SimulatedBuffer*> _buffers;
  // Where the memory of a placement heap begins that no buffer ever had.
  NSUInteger _untouched;
}
// Nil when there is no memory.
- (instancetype)initWithDescriptor:(MTLHeapDescriptor*)descriptor;
- (bool)isUntracked;
- (void)addBuffer:(SimulatedBuffer*)buffer;
- (void)releaseRangeAtOffset:(NSUInteger)offset ofBuffer:(SimulatedBuffer*)buffer;
@end

namespace mps_simulator {

// What a buffer of `length` bytes takes in a heap.
MTLSizeAndAlign heap_size_and_align(NSUInteger length);

} // namespace mps_simulator
