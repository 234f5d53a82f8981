// Ties the ObjFW runtime to the root class and to the simulator's errors.
#pragma once

#include <objc/objc.h>

namespace mps_simulator {

void install_runtime_hooks(Class root_class);

} // namespace mps_simulator
