#include "foundation/copying.h"

#include "foundation/type_encoding.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace mps_simulator {

namespace {

template <class T>
using List = std::unique_ptr<T, decltype(&std::free)>;

bool has_attribute(objc_property_t property, const char* attribute) {
  return List<char>(property_copyAttributeValue(property, attribute), std::free) != nullptr;
}

// Null for a property that is made of others.
Ivar variable_of(Class owner, objc_property_t property) {
  const std::string name = std::string("_") + property_getName(property);
  unsigned count = 0;
  const List<Ivar> variables(class_copyIvarList(owner, &count), std::free);
  for (unsigned i = 0; i < count; ++i) {
    if (name == ivar_getName(variables.get()[i])) {
      return variables.get()[i];
    }
  }
  return nullptr;
}

void copy_property(id from, id to, Class owner, objc_property_t property) {
  const Ivar variable = variable_of(owner, property);
  if (!variable || has_attribute(property, "R")) {
    return;
  }
  const ptrdiff_t offset = ivar_getOffset(variable);
  const bool copies = has_attribute(property, "C");
  if (copies || has_attribute(property, "&")) {
    const id value = objc_getProperty(from, @selector(copy), offset, /*atomic=*/true);
    objc_setProperty(to, @selector(copy), offset, value, /*atomic=*/true, copies);
    return;
  }
  // Not through the accessors: some change other properties too.
  std::memcpy(reinterpret_cast<char*>(to) + offset,
              reinterpret_cast<const char*>(from) + offset,
              parse_type(ivar_getTypeEncoding(variable)).size);
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
