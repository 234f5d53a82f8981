// Autorelease pools, and a count of the objects that are autoreleased without one.
#pragma once

#include <objc/objc.h>

#include <cstdint>
#include <map>
#include <string>

namespace mps_simulator {

// Adds the object to the innermost pool of this thread. Without a pool it lives
// as long as the thread, and is counted.
id autorelease_object(id object);

// What was autoreleased on a thread that had no pool open, by class: macOS keeps
// it until the thread ends, the main thread's until the process does. Under
// "(pools never drained)", the pools that were still open when their thread ended.
std::map<std::string, int64_t> autorelease_leaks();
void reset_autorelease_leaks();

} // namespace mps_simulator
