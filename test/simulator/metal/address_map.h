#pragma once

#include "metal/guarded_memory.h"

#include <string>
#include <vector>

@class SimulatedBuffer;
@class SimulatedHeap;

namespace mps_simulator {

// What is known about the memory of a live buffer.
struct MappedBuffer {
  const SimulatedBuffer* buffer = nullptr; // as an identity: it may be gone soon
  const SimulatedHeap* heap = nullptr;
  GuardedMemory memory; // without guards, `pages` is null
  bool released = false;
  std::string label;

  bool is_guarded() const {
    return memory.pages != nullptr;
  }
};

// Called as buffers come and go.
void map_buffer(SimulatedBuffer* buffer);
void unmap_buffer(const SimulatedBuffer* buffer);

// The live buffer that contains the address. False when there is none.
bool find_buffer_at(const void* address, MappedBuffer& found);
// ... or whose guards or rest of a page do. If no live one is near, one that
// was released lately.
bool find_buffer_near(const void* address, MappedBuffer& found);

} // namespace mps_simulator
