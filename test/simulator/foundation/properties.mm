// Accessors of atomic properties, in place of the ObjFW runtime's: those hold a spin lock while they copy the value,
// and hang for good when the copy sets an atomic property of its own (descriptors within descriptors do).

#include <Foundation/Foundation.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace {

std::mutex& lock_of(const id* slot) {
  // Never destroyed: the locks may be used after static destructors have run.
  static std::array<std::mutex, 64>* locks = new std::array<std::mutex, 64>;
  return (*locks)[(reinterpret_cast<uintptr_t>(slot) >> 4) % locks->size()];
}

id* slot_of(id self, ptrdiff_t offset) {
  return reinterpret_cast<id*>(reinterpret_cast<char*>(self) + offset);
}

id new_value(id value, signed char copy) {
  // the runtime's convention: 1 copies, 2 copies mutably, anything else retains
  switch (copy) {
    case 1:
      return [value copy];
    case 2:
      return [value mutableCopy];
    default:
      return [value retain];
  }
}

} // namespace

extern "C" void objc_setProperty(id self, SEL, ptrdiff_t offset, id value, bool atomic, signed char copy) {
  id* slot = slot_of(self, offset);
  id stored = new_value(value, copy);
  id old = nil;
  if (atomic) {
    std::lock_guard<std::mutex> lock(lock_of(slot));
    old = *slot;
    *slot = stored;
  } else {
    old = *slot;
    *slot = stored;
  }
  [old release];
}

extern "C" id objc_getProperty(id self, SEL, ptrdiff_t offset, bool atomic) {
  id* slot = slot_of(self, offset);
  if (!atomic) {
    return *slot;
  }
  std::lock_guard<std::mutex> lock(lock_of(slot));
  return [[*slot retain] autorelease];
}
