// Ties the ObjFW runtime to the root class and to the simulator's errors.
#pragma once

#include <objc/objc.h>

namespace mps_simulator {

void install_runtime_hooks(Class root_class);

// Adds the object to the innermost pool of this thread. Without a pool it lives
// as long as the thread.
id autorelease_object(id object);

} // namespace mps_simulator
