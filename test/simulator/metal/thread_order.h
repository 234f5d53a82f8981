#pragma once

#include <cstdint>

namespace mps_simulator {

// In what order the threads of the next dispatch run. Metal leaves it open, so
// the order differs from dispatch to dispatch, by MPS_SIMULATOR_SEED: a kernel
// whose threads write to the same place does not give the right result by
// chance.
uint64_t next_thread_order();

// Restarts the sequence of orders as at the start of the process.
void restart_thread_orders();

} // namespace mps_simulator
