#import "metal/gpu.h"

#include "metal/command_buffer.h"
#include "metal/gpu_order.h"
#include "support/counters.h"
#include "support/deferred.h"
#include "support/process.h"
#include "support/settings.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

namespace mps_simulator {

Gpu& Gpu::instance() {
  static auto* instance = new Gpu;
  return *instance;
}

void Gpu::add_queue(const std::shared_ptr<QueueState>& queue) {
  const auto held = lock();
  queues_.push_back(queue);
}

void Gpu::remove_queue(const std::shared_ptr<QueueState>& queue) {
  const auto held = lock();
  queues_.erase(std::remove(queues_.begin(), queues_.end(), queue), queues_.end());
}

void Gpu::work_added(const std::unique_lock<std::mutex>&) {
  start();
  work_.notify_one();
}

void Gpu::wake() {
  const auto held = lock();
  work_.notify_one();
}

bool Gpu::on_own_thread() const {
  const auto self = std::this_thread::get_id();
  return self == gpu_thread_ || self == handler_thread_;
}

void Gpu::start() {
  if (started_ || stopping_) {
    return;
  }
  started_ = true;
  running_threads_ = 2;
  std::thread gpu([this] { run(); });
  gpu_thread_ = gpu.get_id();
  gpu.detach();
  std::thread handlers([this] { run_handlers(); });
  handler_thread_ = handlers.get_id();
  handlers.detach();
  // Registered after those of the libraries that the commands use, so run
  // before these are torn down.
  std::atexit([] { Gpu::instance().stop(); });
}

void Gpu::stop() {
  if (device_lost_by_fork()) {
    return; // The parent's threads do not exist here: do not wait for them.
  }
  // A handler may be blocked forever by what has already been torn down.
  constexpr std::chrono::seconds limit(10);
  auto held = lock();
  last_work_ = std::chrono::steady_clock::now() + limit;
  stopping_ = true;
  work_.notify_all();
  handler_work_.notify_all();
  progress_.wait_until(held, last_work_, [&] { return running_threads_ == 0; });
  stopped_ = true;
  progress_.notify_all();
  for (const auto& queue : queues_) {
    if (!queue->unreported_error) {
      continue;
    }
    std::string reason = "an Objective-C exception";
    try {
      std::rethrow_exception(queue->unreported_error);
    } catch (const std::exception& error) {
      reason = error.what();
    } catch (...) {
    }
    report_at_exit("a command buffer failed and the program did not wait for it: " + reason);
  }
  if (HostView::has_fault()) {
    report_at_exit(HostView::take_fault());
  }
}

SimulatedCommandBuffer* Gpu::next_runnable() {
  for (size_t i = 0; i < queues_.size(); ++i) {
    const auto index = (turn_ + i) % queues_.size();
    const auto& queue = queues_[index];
    if (queue->order.empty()) {
      continue;
    }
    auto* buffer = queue->order.front();
    if (!buffer->_finishedAtCommit && (!buffer->_position || buffer->_position->ready())) {
      turn_ = index + 1;
      return buffer;
    }
  }
  return nil;
}

void Gpu::run() {
  // Commands compute with ATen on plain CPU tensors; none of it is recorded.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  auto held = lock();
  // What is committed when the process ends is still run: it may fail.
  const auto may_work = [&] { return !stopping_ || std::chrono::steady_clock::now() < last_work_; };
  while (may_work()) {
    if (auto* buffer = next_runnable()) {
      execute(buffer, held);
    } else if (stopping_) {
      break;
    } else {
      work_.wait(held);
    }
  }
  gpu_finished_ = true;
  handler_work_.notify_all();
  --running_threads_;
  progress_.notify_all();
}

void Gpu::execute(SimulatedCommandBuffer* buffer, std::unique_lock<std::mutex>& held) {
  [buffer markScheduled];
  executing_ = true;
  held.unlock();
  std::exception_ptr failure;
  bool blocked = false;
  @autoreleasepool {
    try {
      random_delay();
      if (buffer->_position == buffer->_commands.first()) {
        buffer->_accesses.check_bytes();
      }
      while (auto* command = buffer->_position) {
        if (!command->ready()) {
          blocked = true;
          break;
        }
        if (!buffer->_nullMode || command->runs_in_null_mode()) {
          random_delay();
          if (command->pass && GpuOrder::is_on()) {
            GpuOrder::instance().starts(*command, buffer->_order);
          }
          command->run();
        }
        buffer->_position = command->next;
      }
    } catch (...) {
      failure = std::current_exception();
    }
    if (!blocked) {
      // Whoever waits destroys the exception: no reference may stay here.
      [buffer finishWithException:std::move(failure)];
      random_delay();
    }
  }
  held.lock();
  executing_ = false;
  ++work_done_;
}

void Gpu::post_handlers(std::function<void()> handlers) {
  constexpr size_t most_waiting = 256;
  start();
  handlers_.push_back(std::move(handlers));
  if (looks_left_ == 0 || !settings().null_mode || handlers_.size() >= most_waiting) {
    wake_handlers();
  }
}

void Gpu::wake_handlers() {
  if (!handlers_.empty()) {
    ++handler_wakes;
    handler_work_.notify_one();
  }
}

void Gpu::run_handlers() {
  in_background = true;
  auto held = lock();
  for (;;) {
    constexpr std::chrono::milliseconds pause(2);
    constexpr int looks_in_null_mode = 100;
    const auto may_go_on = [&] { return gpu_finished_ || !handlers_.empty(); };
    if (looks_left_ == 0) {
      handler_work_.wait(held, may_go_on);
    } else if (!may_go_on()) {
      --looks_left_;
      handler_work_.wait_for(held, pause);
      continue;
    }
    if (handlers_.empty()) {
      break;
    }
    looks_left_ = settings().null_mode ? looks_in_null_mode : 0;
    auto next = std::move(handlers_.front());
    handlers_.pop_front();
    held.unlock();
    // Some time passes on a Mac, too, before the handlers are called.
    random_delay();
    @autoreleasepool {
      next();
    }
    next = nullptr;
    held.lock();
    ++work_done_;
  }
  --running_threads_;
  progress_.notify_all();
}

void Gpu::random_delay() {
  const unsigned longest = settings().delay_microseconds;
  if (longest && !stopping_) {
    std::this_thread::sleep_for(std::chrono::microseconds(delays_.next() % (longest + 1)));
  }
}

} // namespace mps_simulator
