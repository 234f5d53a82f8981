// Where the memory of objects comes from and goes to.
#pragma once

#include <objc/objc.h>

#include <cstdint>

namespace mps_simulator {

id create_object(Class object_class);
void destroy_object(id object);

int64_t increment_retain_count(id object);
// The count after the decrement.
int64_t decrement_retain_count(id object);
int64_t get_retain_count(id object);

// The class of a destroyed object that is still in quarantine, otherwise Nil.
Class destroyed_object_class(id object);

// Ties the ObjFW runtime to the root class and to the simulator's errors.
void install_runtime_hooks(Class root_class);

} // namespace mps_simulator
