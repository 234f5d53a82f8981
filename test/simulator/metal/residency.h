#pragma once

#import <Metal/Metal.h>

#include <c10/util/FunctionRef.h>

#include <string>

@class SimulatedBuffer;

namespace mps_simulator {

class AccessLog;

// A resource, or heap, that an encoder has declared used: memory that is reached
// through a pointer inside a buffer, or by a command of an indirect command
// buffer, may not be mapped on a GPU otherwise. The encoder's list of them, the
// youngest first, is in the memory of the command list.
struct ResourceUse {
  const void* resource;
  // The heap of a buffer; of a heap, itself.
  const void* heap;
  // As what Metal tracks it; null if it does not.
  const void* tracked;
  bool writes;
  const ResourceUse* next;
};

ResourceUse make_use(id resource, bool writes, const ResourceUse* before);

// The declaration that holds for a buffer of that heap: the youngest one of
// either. Null if there is none.
const ResourceUse* declared_use(
    const ResourceUse* uses,
    const void* buffer,
    const void* heap);

// The one that holds for each resource.
void each_declared_use(
    const ResourceUse* uses,
    c10::function_ref<void(const ResourceUse&)> visit);

// The buffers that are declared may be accessed as declared.
void log_declared_uses(const ResourceUse* uses, AccessLog& log);

// "'weights' of 64 bytes at 0x7f…", to name a buffer in a message.
std::string describe_buffer(const SimulatedBuffer* buffer);

} // namespace mps_simulator
