#include "support/process.h"

#include <pthread.h>

#include <atomic>

namespace mps_simulator {

namespace {

std::atomic<bool> in_use{false};
std::atomic<bool> lost{false};

} // namespace

void note_device_in_use() {
  if (!in_use.exchange(true)) {
    pthread_atfork(nullptr, nullptr, [] { lost = true; });
  }
}

bool device_lost_by_fork() {
  return lost.load(std::memory_order_relaxed);
}

} // namespace mps_simulator
