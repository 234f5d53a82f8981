#include "foundation/dispatch_queue.h"

#include "support/counters.h"
#include "support/error.h"
#include "support/process.h"
#include "support/random.h"

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

namespace {

constexpr uint64_t kSyncsPerOtherThread = 8;

bool sync_runs_elsewhere() {
  static SeededChoice choice(kSyncsPerOtherThread);
  // A forked child has none of the threads that its parent had.
  return choice.otherwise() && !device_lost_by_fork();
}

} // namespace

// One for each queue whose block a thread is running, on that thread's stack.
class BlockQueue::Holding {
 public:
  explicit Holding(BlockQueue& queue) : queue_(queue), outer_(innermost_) {
    innermost_ = this;
  }
  ~Holding() {
    innermost_ = outer_;
    queue_.finish();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  // Marks this thread as working for the thread whose innermost queue it was,
  // so that a deadlock is found: work that waits for a queue that waits for the
  // work.
  class Adopted {
   public:
    explicit Adopted(const Holding* innermost) {
      innermost_ = innermost;
    }
    ~Adopted() {
      innermost_ = nullptr;
    }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
  };

  static const Holding* innermost() {
    return innermost_;
  }

  static BlockQueue* innermost_queue() {
    return innermost_ == nullptr ? nullptr : &innermost_->queue_;
  }

  static bool holds(const BlockQueue* queue) {
    for (const auto* holding = innermost_; holding != nullptr; holding = holding->outer_) {
      if (&holding->queue_ == queue) {
        return true;
      }
    }
    return false;
  }

 private:
  BlockQueue& queue_;
  const Holding* const outer_;
  // No container: the destructors of static objects use queues after the thread's
  // own variables are gone.
  static thread_local const Holding* innermost_;
};

thread_local const BlockQueue::Holding* BlockQueue::Holding::innermost_ = nullptr;

BlockQueue::~BlockQueue() {
  for (const auto& entry : specifics_) {
    if (entry.second.destructor != nullptr) {
      entry.second.destructor(entry.second.context);
    }
  }
}

BlockQueue* BlockQueue::innermost_of_this_thread() {
  return Holding::innermost_queue();
}

void BlockQueue::check_is_served(const char* function, const char* outcome) const {
  if (is_main_) {
    violation("%s: nothing runs the main queue of this process, so the %s", function, outcome);
  }
}

void BlockQueue::sync(const char* function, const std::function<void()>& work) {
  check_is_served(function, "call would never return");
  if (Holding::holds(this)) {
    violation(
        "%s: deadlock, the queue \"%s\" is already running the block that makes this call", function, label_.c_str());
  }
  {
    std::unique_lock lock(mutex_);
    if (items_.empty() && !running_) {
      running_ = true;
    } else {
      Waiter waiter;
      items_.push_back({&waiter, nullptr});
      waiter.changed.wait(lock, [&] { return waiter.turn; });
    }
  }
  if (sync_runs_elsewhere()) {
    run_elsewhere(work);
    return;
  }
  const Holding holding(*this);
  work();
}

void BlockQueue::run_elsewhere(const std::function<void()>& work) {
  struct {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    std::exception_ptr failure;
  } result;
  run_on_worker([&, waiting = Holding::innermost()] {
    std::exception_ptr failure;
    {
      const Holding::Adopted adopted(waiting);
      const Holding holding(*this);
      @autoreleasepool {
        try {
          work();
        } catch (...) {
          failure = std::current_exception();
        }
      }
    }
    const std::lock_guard lock(result.mutex);
    result.failure = std::move(failure);
    result.is_done = true;
    // With the lock held: the waiting thread destroys it.
    result.changed.notify_one();
  });
  std::unique_lock lock(result.mutex);
  result.changed.wait(lock, [&] { return result.is_done; });
  if (result.failure) {
    std::rethrow_exception(result.failure);
  }
}

void BlockQueue::async(const char* function, std::function<void()> work) {
  check_is_served(function, "block would never run");
  const std::lock_guard lock(mutex_);
  items_.push_back({nullptr, std::move(work)});
  if (!running_) {
    start_next_item();
  }
}

// With the mutex held.
void BlockQueue::start_next_item() {
  running_ = !items_.empty();
  if (!running_) {
    return;
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  if (item.waiter != nullptr) {
    item.waiter->turn = true;
    item.waiter->changed.notify_one();
  } else {
    run_on_worker([self = shared_from_this(), work = std::move(item.work)] {
      const Holding holding(*self);
      in_background = true;
      work();
      in_background = false;
    });
  }
}

void BlockQueue::finish() {
  const std::lock_guard lock(mutex_);
  start_next_item();
}

void BlockQueue::set_specific(const void* key, void* context, void (*destructor)(void*)) {
  Specific old{nullptr, nullptr};
  {
    const std::lock_guard lock(mutex_);
    auto& entry = specifics_[key];
    std::swap(old, entry);
    entry = {context, destructor};
    if (context == nullptr) {
      specifics_.erase(key);
    }
  }
  if (old.destructor != nullptr) {
    old.destructor(old.context);
  }
}

void* BlockQueue::specific(const void* key) {
  const std::lock_guard lock(mutex_);
  const auto found = specifics_.find(key);
  return found == specifics_.end() ? nullptr : found->second.context;
}

} // namespace mps_simulator
