// Groups, semaphores and dispatch_once().
#include "foundation/dispatch_queue.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace mps_simulator;

namespace {

using Lock = std::unique_lock<std::mutex>;

// False when the time is over.
template <typename Condition>
bool wait_until(std::condition_variable& changed, Lock& lock, dispatch_time_t timeout, const Condition& condition) {
  if (timeout == DISPATCH_TIME_FOREVER) {
    changed.wait(lock, condition);
    return true;
  }
  const uint64_t now = clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
  const uint64_t left = timeout <= now ? 0 : timeout - now;
  return changed.wait_for(lock, std::chrono::nanoseconds(left), condition);
}

} // namespace

@interface SimulatorDispatchSemaphore : NSObject <OS_dispatch_semaphore> {
 @public
  std::mutex mutex;
  std::condition_variable changed;
  intptr_t value;
  intptr_t initial_value;
}
@end

@implementation SimulatorDispatchSemaphore

- (void)dealloc {
  const BOOL in_use = value < initial_value;
  [super dealloc];
  if (in_use) {
    violation("dispatch_release: the semaphore is still in use, its value is below the one it was made with");
  }
}

@end

@interface SimulatorDispatchGroup : NSObject <OS_dispatch_group> {
 @public
  std::mutex mutex;
  std::condition_variable changed;
  size_t entered;
  // Blocks for when the group is empty.
  std::vector<std::pair<std::shared_ptr<BlockQueue>, std::function<void()>>> notifications;
}
@end

@implementation SimulatorDispatchGroup

- (void)dealloc {
  const BOOL in_use = entered > 0;
  [super dealloc];
  if (in_use) {
    violation("dispatch_release: the group is released while work in it is unfinished");
  }
}

@end

namespace {

template <typename T>
T* checked(id object, const char* function) {
  if (![object isKindOfClass:[T class]]) {
    violation("%s: the object is %s", function, object == nil ? "NULL" : object_getClassName(object));
  }
  return (T*)object;
}

} // namespace

dispatch_semaphore_t dispatch_semaphore_create(intptr_t value) {
  if (value < 0) {
    return nil;
  }
  SimulatorDispatchSemaphore* semaphore = [[SimulatorDispatchSemaphore alloc] init];
  semaphore->value = semaphore->initial_value = value;
  return semaphore;
}

intptr_t dispatch_semaphore_wait(dispatch_semaphore_t object, dispatch_time_t timeout) {
  auto* semaphore = checked<SimulatorDispatchSemaphore>(object, __func__);
  Lock lock(semaphore->mutex);
  if (!wait_until(semaphore->changed, lock, timeout, [&] { return semaphore->value > 0; })) {
    return 1;
  }
  --semaphore->value;
  return 0;
}

intptr_t dispatch_semaphore_signal(dispatch_semaphore_t object) {
  auto* semaphore = checked<SimulatorDispatchSemaphore>(object, __func__);
  const std::lock_guard lock(semaphore->mutex);
  ++semaphore->value;
  semaphore->changed.notify_one();
  return 0;
}

dispatch_group_t dispatch_group_create(void) {
  return [[SimulatorDispatchGroup alloc] init];
}

void dispatch_group_enter(dispatch_group_t object) {
  auto* group = checked<SimulatorDispatchGroup>(object, __func__);
  const std::lock_guard lock(group->mutex);
  ++group->entered;
}

void dispatch_group_leave(dispatch_group_t object) {
  auto* group = checked<SimulatorDispatchGroup>(object, __func__);
  decltype(group->notifications) notifications;
  {
    const std::lock_guard lock(group->mutex);
    if (group->entered == 0) {
      violation("%s: more calls than of dispatch_group_enter", __func__);
    }
    if (--group->entered == 0) {
      notifications.swap(group->notifications);
      group->changed.notify_all();
    }
  }
  for (auto& [queue, work] : notifications) {
    queue->async(false, "dispatch_group_notify", std::move(work));
  }
}

intptr_t dispatch_group_wait(dispatch_group_t object, dispatch_time_t timeout) {
  auto* group = checked<SimulatorDispatchGroup>(object, __func__);
  Lock lock(group->mutex);
  return wait_until(group->changed, lock, timeout, [&] { return group->entered == 0; }) ? 0 : 1;
}

void dispatch_group_async(dispatch_group_t object, dispatch_queue_t queue, dispatch_block_t block) {
  auto* group = checked<SimulatorDispatchGroup>(object, __func__);
  auto work = own_block(block, __func__);
  auto& state = block_queue(queue, __func__);
  dispatch_group_enter(object);
  const std::shared_ptr<void> entered([group retain], [](void* kept) {
    dispatch_group_leave((dispatch_group_t)kept);
    [(id)kept release];
  });
  state.async(false, __func__, [entered, work] { work(); });
}

void dispatch_group_notify(dispatch_group_t object, dispatch_queue_t queue, dispatch_block_t block) {
  auto* group = checked<SimulatorDispatchGroup>(object, __func__);
  auto work = own_block(block, __func__);
  auto state = block_queue(queue, __func__).shared_from_this();
  {
    const std::lock_guard lock(group->mutex);
    if (group->entered > 0) {
      group->notifications.emplace_back(state, work);
      return;
    }
  }
  state->async(false, __func__, work);
}

void dispatch_once_f(dispatch_once_t* predicate, void* context, dispatch_function_t function) {
  dispatch_once(predicate, ^{
    function(context);
  });
}

void dispatch_once(dispatch_once_t* predicate, dispatch_block_t block) {
  constexpr dispatch_once_t kDone = ~0l;
  if (__atomic_load_n(predicate, __ATOMIC_ACQUIRE) == kDone) {
    return;
  }
  static std::mutex mutex;
  static std::condition_variable changed;
  static thread_local char this_thread;
  // While it runs, the predicate says which thread runs the block.
  const auto mine = reinterpret_cast<dispatch_once_t>(&this_thread);
  {
    Lock lock(mutex);
    if (*predicate == mine) {
      violation("%s: deadlock, the block makes this call for its own predicate", __func__);
    }
    changed.wait(lock, [&] { return *predicate == 0 || *predicate == kDone; });
    if (*predicate == kDone) {
      return;
    }
    // Read above without the lock.
    __atomic_store_n(predicate, mine, __ATOMIC_RELAXED);
  }
  const auto leave = [&](dispatch_once_t value) {
    const std::lock_guard lock(mutex);
    __atomic_store_n(predicate, value, __ATOMIC_RELEASE);
    changed.notify_all();
  };
  try {
    block();
  } catch (...) {
    leave(0);
    throw;
  }
  leave(kDone);
}
