#include "metal/thread_order.h"

#include "support/settings.h"

#include <atomic>

namespace mps_simulator {

namespace {

std::atomic<uint64_t> dispatches{0};

} // namespace

uint64_t next_thread_order() {
  // The finalizer of splitmix64: consecutive inputs give unrelated outputs.
  uint64_t number = settings().seed + (dispatches++ + 1) * 0x9E3779B97F4A7C15ull;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ull;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBull;
  return number ^ (number >> 31);
}

void restart_thread_orders() {
  dispatches = 0;
}

} // namespace mps_simulator
