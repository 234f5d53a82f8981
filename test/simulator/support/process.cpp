#include "support/process.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>

namespace mps_simulator {

namespace {

std::atomic<bool> in_use{false};
std::atomic<bool> lost{false};
std::atomic<bool> exiting{false};

void enter_child() {
  lost = true;
  // The last one registered runs first: before the destructors of statics.
  std::atexit([] { exiting = true; });
}

} // namespace

void note_device_in_use() {
  if (!in_use.exchange(true)) {
    pthread_atfork(nullptr, nullptr, enter_child);
  }
}

bool device_lost_by_fork() {
  return lost.load(std::memory_order_relaxed);
}

bool lost_and_exiting() {
  return device_lost_by_fork() && exiting.load(std::memory_order_relaxed);
}

} // namespace mps_simulator
