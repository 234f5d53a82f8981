// Where the memory of objects comes from and goes to.
#pragma once

#include <objc/objc.h>

#include <cstdint>
#include <map>
#include <string>

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

// Autorelease pools, and a count of the objects that are autoreleased without one.
// Adds the object to the innermost pool of this thread. Without a pool it lives
// as long as the thread, and is counted.
id autorelease_object(id object);

// What was autoreleased on a thread that had no pool open, by class: macOS keeps
// it until the thread ends, the main thread's until the process does. Under
// "(pools never drained)", the pools that were still open when their thread ended.
std::map<std::string, int64_t> autorelease_leaks();
void reset_autorelease_leaks();

} // namespace mps_simulator
