#include "foundation/autorelease.h"

#include <Foundation/NSObject.h>

#include <dlfcn.h>
#include <objc/runtime.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

namespace mps_simulator {

namespace {

constexpr const char* kNeverDrained = "(pools never drained)";

// Never destroyed: threads end while the process exits.
struct Leaks {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;

  void add(const char* name, int64_t count) {
    const std::lock_guard<std::mutex> lock(mutex);
    counts[name] += count;
  }
};

Leaks& leaks() {
  static auto* instance = new Leaks;
  return *instance;
}

using Push = void* (*)();
using Pop = void (*)(void*);

Push runtime_push() {
  static const auto function = reinterpret_cast<Push>(dlsym(RTLD_NEXT, "objc_autoreleasePoolPush"));
  return function;
}

Pop runtime_pop() {
  static const auto function = reinterpret_cast<Pop>(dlsym(RTLD_NEXT, "objc_autoreleasePoolPop"));
  return function;
}

// The pools of a thread, innermost last. An exception leaves a pool without
// draining it, as on macOS: the next outer one drains both.
using OpenPools = std::vector<void*>;

// A pointer, since pools are still opened when the thread's own variables are gone: the
// destructors of static objects release what they hold.
thread_local OpenPools* open_pools = nullptr;

// A thread that ends releases what it autoreleased outside of all pools. The main
// thread does not: the process ends with it.
struct ThreadEnd {
  ~ThreadEnd() {
    if (!open_pools->empty()) {
      leaks().add(kNeverDrained, static_cast<int64_t>(open_pools->size()));
    }
    runtime_pop()(reinterpret_cast<void*>(UINTPTR_MAX));
    delete std::exchange(open_pools, nullptr);
  }
};

OpenPools& thread_pools() {
  if (open_pools == nullptr) {
    open_pools = new OpenPools;
    if (getpid() != gettid()) {
      thread_local const ThreadEnd end;
    }
  }
  return *open_pools;
}

} // namespace

id autorelease_object(id object) {
  if (thread_pools().empty()) {
    leaks().add(class_getName(object_getClass(object)), 1);
  }
  return _objc_rootAutorelease(object);
}

std::map<std::string, int64_t> autorelease_leaks() {
  auto& all = leaks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.counts;
}

void reset_autorelease_leaks() {
  auto& all = leaks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.counts.clear();
}

} // namespace mps_simulator

// In front of the runtime's own, which keep no account of open pools.
extern "C" {

__attribute__((visibility("default"))) void* objc_autoreleasePoolPush() {
  auto& open = mps_simulator::thread_pools();
  open.push_back(mps_simulator::runtime_push()());
  // The runtime's own tokens are equal for pools that nothing lies between.
  return reinterpret_cast<void*>(open.size());
}

__attribute__((visibility("default"))) void objc_autoreleasePoolPop(void* pool) {
  auto& open = mps_simulator::thread_pools();
  const auto position = reinterpret_cast<uintptr_t>(pool);
  if (position == 0 || position > open.size()) {
    return; // An outer pool has been drained before, and this one with it.
  }
  void* token = open[position - 1];
  open.resize(position - 1);
  mps_simulator::runtime_pop()(token);
}
}
