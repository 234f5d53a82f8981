#include "foundation/copying.h"

#include <Foundation/Foundation.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

namespace mps_simulator {

namespace {

template <class T>
using List = std::unique_ptr<T, decltype(&std::free)>;

bool has_attribute(objc_property_t property, const char* attribute) {
  return List<char>(property_copyAttributeValue(property, attribute), std::free) != nullptr;
}

struct Variable {
  ptrdiff_t begin = 0;
  ptrdiff_t end = 0; // where the next one begins; 0 for a property that is made of others
};

Variable variable_of(Class owner, objc_property_t property) {
  const std::string name = std::string("_") + property_getName(property);
  unsigned count = 0;
  const List<Ivar> variables(class_copyIvarList(owner, &count), std::free);
  for (unsigned i = 0; i < count; ++i) {
    if (name == ivar_getName(variables.get()[i])) {
      const auto end = i + 1 < count ? ivar_getOffset(variables.get()[i + 1])
                                     : static_cast<ptrdiff_t>(class_getInstanceSize(owner));
      return {ivar_getOffset(variables.get()[i]), end};
    }
  }
  return {};
}

void copy_property(id from, id to, Class owner, objc_property_t property) {
  const auto [offset, end] = variable_of(owner, property);
  if (end == 0 || has_attribute(property, "R")) {
    return;
  }
  const bool copies = has_attribute(property, "C");
  if (copies || has_attribute(property, "&")) {
    const id value = objc_getProperty(from, @selector(copy), offset, /*atomic=*/true);
    objc_setProperty(to, @selector(copy), offset, value, /*atomic=*/true, copies);
    return;
  }
  // Not through the accessors: some change other properties too.
  std::memcpy(reinterpret_cast<char*>(to) + offset,
              reinterpret_cast<const char*>(from) + offset,
              static_cast<size_t>(end - offset));
}

} // namespace

id copy_with_properties(id object) {
  const id copy = [[[object class] alloc] init];
  for (Class owner = [object class]; owner; owner = class_getSuperclass(owner)) {
    unsigned count = 0;
    const List<objc_property_t> properties(class_copyPropertyList(owner, &count), std::free);
    for (unsigned i = 0; i < count; ++i) {
      copy_property(object, copy, owner, properties.get()[i]);
    }
  }
  return copy;
}

} // namespace mps_simulator

// Accessors of atomic properties, in place of the ObjFW runtime's: those hold a spin lock while they copy the value,
// and hang for good when the copy sets an atomic property of its own (descriptors within descriptors do).

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
  {
    const std::lock_guard<std::mutex> lock(lock_of(slot));
    std::swap(*slot, stored);
  }
  [stored release];
}

extern "C" id objc_getProperty(id self, SEL, ptrdiff_t offset, bool atomic) {
  id* slot = slot_of(self, offset);
  std::lock_guard<std::mutex> lock(lock_of(slot));
  return [[*slot retain] autorelease];
}
