// Says that a thread computes a gradient, for the Python bindings.
#pragma once

namespace mps_simulator::graph {

// Whether this thread is in gradient_of(), where it must not wait for Python: a thread that waits for the GPU may hold
// Python's lock.
bool is_gradient_running();

} // namespace mps_simulator::graph
