#pragma once

#include <cstdint>
#include <string>

namespace mps_simulator {

// Called by the root class with the object's class and the class's name (which
// lives as long as the class).
void object_created(const void* object_class, const char* class_name);
void object_destroyed(const void* object_class);

// {"MTLBuffer": 2, …}, without classes that have no live object.
std::string live_objects_json();

} // namespace mps_simulator
