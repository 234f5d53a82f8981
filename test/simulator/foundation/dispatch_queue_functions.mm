#include "foundation/dispatch_queue.h"
#include "support/error.h"

#include <Block.h>
#include <Foundation/Foundation.h>

#include <ctime>
#include <thread>

using namespace mps_simulator;

@implementation SimulatorDispatchQueue

- (NSString*)description {
  return [NSString stringWithFormat:@"<dispatch_queue_t %s: %p>", state->label().c_str(), self];
}

@end

@interface SimulatorDispatchQueueAttributes : NSObject <OS_dispatch_queue_attr>
@end

@implementation SimulatorDispatchQueueAttributes
@end

namespace mps_simulator {

BlockQueue& block_queue(dispatch_queue_t queue, const char* function) {
  if (![queue isKindOfClass:[SimulatorDispatchQueue class]]) {
    violation("%s: the queue is %s", function, queue == nil ? "NULL" : object_getClassName(queue));
  }
  return *((SimulatorDispatchQueue*)queue)->state;
}

std::function<void()> own_block(dispatch_block_t block, const char* function) {
  if (block == nullptr) {
    violation("%s: the block is NULL", function);
  }
  const std::shared_ptr<void> owned(_Block_copy((const void*)block), [](void* copy) { _Block_release(copy); });
  return [owned] { ((dispatch_block_t)owned.get())(); };
}

} // namespace mps_simulator

namespace {

dispatch_queue_t make_queue(const char* label, QueueKind kind) {
  SimulatorDispatchQueue* queue = [[SimulatorDispatchQueue alloc] init];
  queue->state = std::make_shared<BlockQueue>(label == nullptr ? "" : label, kind);
  return queue;
}

// The simulator's own errors may leave a block: they stand for a call that did
// not happen, and Python must receive them. On a Mac any exception that reaches
// libdispatch ends the process; here it is reported as an error.
void run_in_block(const char* function, const std::function<void()>& work) {
  const char* ending =
      "%s: a C++ exception left the block, which would end the process on a Mac; catch it inside the block. The exception: %s";
  try {
    work();
  } catch (const std::exception& error) {
    if (is_own_error(error)) {
      throw;
    }
    const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
    violation(ending, function, with_backtrace == nullptr ? error.what() : with_backtrace->what_without_backtrace());
  } catch (...) {
    violation(ending, function, "of unknown type");
  }
}

void sync(const char* function, dispatch_queue_t queue, bool barrier, const std::function<void()>& work) {
  // A caller may release the queue inside the block.
  const auto state = block_queue(queue, function).shared_from_this();
  state->sync(barrier, function, [&] { run_in_block(function, work); });
}

void check_block(dispatch_block_t block, const char* function) {
  if (block == nullptr) {
    violation("%s: the block is NULL", function);
  }
}

uint64_t nanoseconds_until(dispatch_time_t when) {
  const uint64_t now = clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
  return when <= now ? 0 : when - now;
}

} // namespace

dispatch_queue_attr_t _dispatch_queue_attr_concurrent(void) {
  static const dispatch_queue_attr_t concurrent = [[SimulatorDispatchQueueAttributes alloc] init];
  return concurrent;
}

dispatch_queue_attr_t dispatch_queue_attr_make_with_qos_class(dispatch_queue_attr_t attributes,
                                                              dispatch_qos_class_t qos_class,
                                                              int relative_priority) {
  return attributes;
}

dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attributes) {
  return make_queue(label, attributes == nil ? QueueKind::Serial : QueueKind::Concurrent);
}

dispatch_queue_t dispatch_queue_create_with_target(const char* label,
                                                   dispatch_queue_attr_t attributes,
                                                   dispatch_queue_t target) {
  if (target != nil && block_queue(target, __func__).kind() != QueueKind::Concurrent) {
    unsupported("%s with a serial target queue", __func__);
  }
  return dispatch_queue_create(label, attributes);
}

const char* dispatch_queue_get_label(dispatch_queue_t queue) {
  if (queue != nil) {
    return block_queue(queue, __func__).label().c_str();
  }
  const auto* current = BlockQueue::innermost_of_this_thread();
  return current == nullptr ? "" : current->label().c_str();
}

dispatch_queue_t dispatch_get_main_queue(void) {
  static const dispatch_queue_t main_queue = make_queue("com.apple.main-thread", QueueKind::Main);
  return main_queue;
}

dispatch_queue_t dispatch_get_global_queue(intptr_t identifier, uintptr_t flags) {
  static const dispatch_queue_t global_queue = make_queue("com.apple.root.default-qos", QueueKind::Concurrent);
  return global_queue;
}

void dispatch_sync(dispatch_queue_t queue, dispatch_block_t block) {
  check_block(block, __func__);
  sync(__func__, queue, false, [block] { block(); });
}

void dispatch_sync_f(dispatch_queue_t queue, void* context, dispatch_function_t work) {
  sync(__func__, queue, false, [=] { work(context); });
}

void dispatch_barrier_sync(dispatch_queue_t queue, dispatch_block_t block) {
  check_block(block, __func__);
  sync(__func__, queue, true, [block] { block(); });
}

void dispatch_async_and_wait(dispatch_queue_t queue, dispatch_block_t block) {
  check_block(block, __func__);
  sync(__func__, queue, false, [block] { block(); });
}

void dispatch_async(dispatch_queue_t queue, dispatch_block_t block) {
  block_queue(queue, __func__).async(false, __func__, own_block(block, __func__));
}

void dispatch_async_f(dispatch_queue_t queue, void* context, dispatch_function_t work) {
  block_queue(queue, __func__).async(false, __func__, [=] { work(context); });
}

void dispatch_barrier_async(dispatch_queue_t queue, dispatch_block_t block) {
  block_queue(queue, __func__).async(true, __func__, own_block(block, __func__));
}

void dispatch_after(dispatch_time_t when, dispatch_queue_t queue, dispatch_block_t block) {
  auto state = block_queue(queue, __func__).shared_from_this();
  if (state->kind() == QueueKind::Main) {
    violation("%s: nothing runs the main queue of this process, so the block would never run", __func__);
  }
  if (when == DISPATCH_TIME_FOREVER) {
    violation("%s: the block would never run", __func__);
  }
  run_on_worker([state, when, work = own_block(block, __func__)] {
    std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds_until(when)));
    state->async(false, "dispatch_after", work);
  });
}

void dispatch_apply(size_t iterations, dispatch_queue_t queue, void (^block)(size_t iteration)) {
  // One after the other, which is an order that Apple's implementation may choose, too.
  const auto run_all = [=] {
    for (size_t i = 0; i < iterations; ++i) {
      block(i);
    }
  };
  if (queue == nil) {
    run_in_block(__func__, run_all);
  } else {
    sync(__func__, queue, false, run_all);
  }
}

void dispatch_assert_queue(dispatch_queue_t queue) {
  const auto& state = block_queue(queue, __func__);
  if (!state.held_by_this_thread()) {
    violation("%s: this block does not run on the queue \"%s\"", __func__, state.label().c_str());
  }
}

void dispatch_assert_queue_not(dispatch_queue_t queue) {
  const auto& state = block_queue(queue, __func__);
  if (state.held_by_this_thread()) {
    violation("%s: this block runs on the queue \"%s\"", __func__, state.label().c_str());
  }
}

void dispatch_queue_set_specific(dispatch_queue_t queue,
                                 const void* key,
                                 void* context,
                                 dispatch_function_t destructor) {
  block_queue(queue, __func__).set_specific(key, context, destructor);
}

void* dispatch_queue_get_specific(dispatch_queue_t queue, const void* key) {
  return block_queue(queue, __func__).specific(key);
}

void* dispatch_get_specific(const void* key) {
  auto* current = BlockQueue::innermost_of_this_thread();
  return current == nullptr ? nullptr : current->specific(key);
}

dispatch_time_t dispatch_time(dispatch_time_t when, int64_t delta) {
  if (when == DISPATCH_TIME_FOREVER) {
    return when;
  }
  const uint64_t base = when == DISPATCH_TIME_NOW ? clock_gettime_nsec_np(CLOCK_UPTIME_RAW) : when;
  return base + static_cast<uint64_t>(delta);
}

void dispatch_retain(dispatch_object_t object) {
  [object retain];
}

void dispatch_release(dispatch_object_t object) {
  [object release];
}
