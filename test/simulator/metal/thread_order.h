#pragma once

#include <cstdint>

namespace mps_simulator {

// In what order the threads of the next dispatch run. Metal leaves it open, so
// it is another one each time, by MPS_SIMULATOR_SEED: a kernel whose threads
// write to the same place does not look right by chance.
uint64_t next_thread_order();

// From here on the same orders come again as from the start of the process.
void restart_thread_orders();

} // namespace mps_simulator
