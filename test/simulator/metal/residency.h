#pragma once

#import <Metal/Metal.h>

#include <string>
#include <unordered_map>

@class SimulatedBuffer;

namespace mps_simulator {

class AccessLog;

// What an encoder was told by useResource: and useHeap:. Memory that is reached
// through a pointer inside a buffer, or by a command of an indirect command
// buffer, must be in here: on a GPU it may not be mapped otherwise.
class Residency {
 public:
  void use(id<MTLResource> resource, MTLResourceUsage usage) {
    usages_[resource] |= usage;
  }
  void use_heap(id<MTLHeap> heap) {
    usages_[heap] |= MTLResourceUsageRead | MTLResourceUsageWrite;
  }
  // All that is declared may be accessed as declared.
  void log_accesses(AccessLog& log) const;
  // What is declared of the buffer, by itself or by its heap.
  MTLResourceUsage usage_of(const SimulatedBuffer* buffer) const;

 private:
  std::unordered_map<const void*, NSUInteger> usages_;
};

// "'weights' of 64 bytes at 0x7f…", to name a buffer in a message.
std::string describe_buffer(const SimulatedBuffer* buffer);

} // namespace mps_simulator
