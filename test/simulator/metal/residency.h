#pragma once

#import <Metal/Metal.h>

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <string>

@class SimulatedBuffer;

namespace mps_simulator {

class AccessLog;
class CommandList;

// What an encoder has declared used: memory that is reached through a pointer
// inside a buffer, or by a command of an indirect command buffer, may not be
// mapped on a GPU otherwise. The encoder's pass keeps it; a copy is what was
// declared until then, and costs a pointer.
class Residency {
 public:
  // A resource or a heap. What is declared of a heap and of its buffers replaces
  // each other.
  struct Use {
    const void* resource;
    // The heap of a buffer; of a heap, itself.
    const void* heap;
    // As what Metal tracks it; null if it does not.
    const void* tracked;
    bool writes;
    const Use* next; // the one declared before
  };

  // The declaration is in the memory of the list.
  void declare(id resource, bool writes, CommandList& list);

  // The declaration that holds for a buffer of that heap. Null if there is none.
  const Use* find(const void* buffer, const void* heap) const;
  // The one that holds for each resource.
  void each(c10::function_ref<void(const Use&)> visit) const;
  // The buffers that are declared may be accessed as declared.
  void log(AccessLog& log) const;

 private:
  const Use* youngest_ = nullptr;
};

// What Metal tracks as one with the buffer: itself, or its heap with all its
// buffers. Null if it does not track it.
const void* tracked_resource(const SimulatedBuffer* buffer);

// "'weights' of 64 bytes at 0x7f…", to name a buffer in a message.
std::string describe_buffer(const SimulatedBuffer* buffer);

} // namespace mps_simulator

namespace mps_simulator {

// Commands that the GPU starts and ends together: those of an encoder, or a run
// of a graph or of a kernel object. In the memory of the commands' list.
struct GpuPass {
  // Whether its commands may run at the same time.
  bool concurrent = false;
  unsigned commands = 0;
  // Declared by the encoder so far.
  Residency residency;
  // Given by the GPU when it starts; 0 where its order is of no interest.
  uint64_t id = 0;
  bool started = false;
};

} // namespace mps_simulator
