#include "foundation/worker_pool.h"

#include <objc/objc.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace mps_simulator {

namespace {

constexpr std::chrono::seconds kIdleTime{5};

struct Pool {
  std::mutex mutex;
  std::condition_variable work_added;
  std::deque<std::function<void()>> work;
  size_t idle_threads = 0;
};

// Never destroyed: threads may outlive the end of main().
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

void run_guarded(const std::function<void()>& work) {
  try {
    @autoreleasepool {
      work();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "MPS simulator: an exception left an asynchronous block: %s\n", error.what());
    std::abort();
  } catch (...) {
    std::fprintf(stderr, "MPS simulator: an exception left an asynchronous block\n");
    std::abort();
  }
}

void serve() {
  auto& pool = mps_simulator::pool();
  std::unique_lock lock(pool.mutex);
  for (;;) {
    if (pool.work.empty()) {
      ++pool.idle_threads;
      const bool woken = pool.work_added.wait_for(lock, kIdleTime, [&] { return !pool.work.empty(); });
      --pool.idle_threads;
      if (!woken) {
        return;
      }
    }
    auto work = std::move(pool.work.front());
    pool.work.pop_front();
    lock.unlock();
    run_guarded(work);
    work = nullptr;
    lock.lock();
  }
}

} // namespace

void run_on_worker(std::function<void()> work) {
  auto& pool = mps_simulator::pool();
  const std::lock_guard lock(pool.mutex);
  pool.work.push_back(std::move(work));
  // Each waiting piece of work gets a thread: one may wait for another.
  if (pool.work.size() > pool.idle_threads) {
    std::thread(serve).detach();
  } else {
    pool.work_added.notify_one();
  }
}

} // namespace mps_simulator
