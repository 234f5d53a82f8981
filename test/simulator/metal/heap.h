#pragma once

#import <Metal/Metal.h>

#import "metal/resource.h"

#include <map>
#include <mutex>

@class SimulatedBuffer;

@interface SimulatedHeap : SimulatedResource <MTLHeap> {
 @public
  // For buffers without pages of their own. Not touched before it is used.
  char* _pointer;
 @private
  MTLHeapType _type;
  NSUInteger _size;
  std::mutex _mutex;
  // What is taken, by its offset, and by which buffer: null until that is made.
  struct Range {
    NSUInteger length;
    SimulatedBuffer* buffer;
  };
  std::map<NSUInteger, Range> _ranges;
  // Where the memory of a placement heap begins that no buffer ever had.
  NSUInteger _untouched;
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
