// Threads that run what queues were given asynchronously.
#pragma once

#include <functional>

namespace mps_simulator {

// Runs the work soon on a thread of its own or on one that is idle, inside an
// autorelease pool. A C++ exception that leaves the work ends the process, as
// on a Mac.
void run_on_worker(std::function<void()> work);

} // namespace mps_simulator
