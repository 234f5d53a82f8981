#pragma once

#import <Foundation/Foundation.h>

#include "metal/access_map.h"
#include "support/random.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

@class SimulatedCommandBuffer;

namespace mps_simulator {

// What the GPU knows of a command queue. Guarded by the GPU's mutex.
struct QueueState {
  static constexpr size_t maximum = 64; // Metal's default

  // In the order of commit; retained.
  std::deque<SimulatedCommandBuffer*> order;
  size_t unfinished = 0; // made, and neither completed nor gone
  size_t committed = 0; // of those
  PassSet done; // guarded by GpuOrder
  // Of a command buffer for which the program has not waited.
  std::exception_ptr unreported_error;
};

// Executes committed command buffers on a thread of its own, each queue in its
// order, the queues in turn. A queue whose next command waits for an event lets
// the others pass.
class Gpu {
 public:
  // Never destroyed: the process may end with work in flight.
  static Gpu& instance();

  std::unique_lock<std::mutex> lock() {
    return std::unique_lock<std::mutex>(mutex_);
  }

  void add_queue(const std::shared_ptr<QueueState>& queue);
  void remove_queue(const std::shared_ptr<QueueState>& queue);

  // With `lock` held: another attempt at what could not run before.
  void work_added(const std::unique_lock<std::mutex>& lock);
  void wake();
  // With `lock` held: sleeps until `condition` holds or the GPU has stopped.
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    progress_.wait(lock, [&] { return condition() || stopped_; });
  }
  // As wait(), but calls `report`, which may throw, once the GPU has been idle
  // for as long as settings().wait_limit_milliseconds says.
  template <class Condition, class Report>
  void wait_watched(std::unique_lock<std::mutex>& lock, Condition condition, Report report) {
    const auto done = [&] { return condition() || stopped_; };
    for (auto work_seen = work_done_; !done(); work_seen = work_done_) {
      const std::chrono::milliseconds limit(settings().wait_limit_milliseconds.load());
      if (!progress_.wait_for(lock, limit, done) && settings().validation && work_seen == work_done_ && !executing_) {
        report();
      }
    }
  }
  void notify_progress() {
    progress_.notify_all();
  }
  bool stopped() const {
    return stopped_;
  }

  // Runs on the thread of the completion handlers, in order. In null mode that
  // thread polls for them: waking it would be most of the host's time for a
  // small command buffer. A caller that waits for the handlers calls
  // wake_handlers(), with `lock` held.
  void post_handlers(std::function<void()> handlers);
  void wake_handlers();
  bool on_own_thread() const;

 private:
  Gpu() = default;

  void start();
  void stop();
  void run();
  void run_handlers();
  SimulatedCommandBuffer* next_runnable();
  void execute(SimulatedCommandBuffer* buffer, std::unique_lock<std::mutex>& lock);
  void random_delay();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::vector<std::shared_ptr<QueueState>> queues_;
  size_t turn_ = 0;
  bool started_ = false;
  std::atomic<bool> stopping_ = false;
  std::chrono::steady_clock::time_point last_work_; // once it is stopping
  bool gpu_finished_ = false;
  bool stopped_ = false;
  // For detecting that the GPU makes no progress.
  uint64_t work_done_ = 0;
  bool executing_ = false;

  std::condition_variable handler_work_;
  std::deque<std::function<void()>> handlers_;
  // How often the thread polls for handlers before it waits to be woken.
  int looks_left_ = 0;

  int running_threads_ = 0;
  std::thread::id gpu_thread_;
  std::thread::id handler_thread_;
  SeededSequence delays_;
};

} // namespace mps_simulator
