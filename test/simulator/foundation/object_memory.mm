#include "foundation/object_memory.h"

#include "foundation/forwarding.h"
#include "support/error.h"
#include "support/counters.h"
#include "support/settings.h"

#include <Foundation/NSObject.h>
#include <objc/runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <unistd.h>
#include <utility>
#include <vector>

// The class of a destroyed object: it has no methods, so each message to it
// reaches the forward handler.
NS_ROOT_CLASS
@interface SimulatorDestroyedObject {
 @public
  Class isa;
}
@end

@implementation SimulatorDestroyedObject
@end

namespace mps_simulator {

namespace {

// In front of each object, because the compiler fixes the layout of constant
// strings and leaves no room for a count in the root class.
struct alignas(16) ObjectHeader {
  std::atomic<int64_t> retain_count;
  Class destroyed_class;
};

ObjectHeader* header_of(id object) {
  return reinterpret_cast<ObjectHeader*>(object) - 1;
}

Class destroyed_object_marker() {
  static const Class marker = objc_getClass("SimulatorDestroyedObject");
  return marker;
}

// Destroyed objects keep their memory until this many others followed them.
constexpr size_t kQuarantineLength = 8192;

void quarantine(ObjectHeader* header) {
  static std::array<std::atomic<ObjectHeader*>, kQuarantineLength> slots{};
  static std::atomic<size_t> next{0};
  auto& slot = slots[next.fetch_add(1, std::memory_order_relaxed) % kQuarantineLength];
  std::free(slot.exchange(header, std::memory_order_acq_rel));
}

} // namespace

id create_object(Class object_class) {
  const size_t size = class_getInstanceSize(object_class);
  void* memory = std::calloc(1, sizeof(ObjectHeader) + size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  auto* header = new (memory) ObjectHeader{{1}, Nil};
  id object = objc_constructInstance(object_class, header + 1);
  if (object == nil) {
    std::free(memory);
    throw std::bad_alloc();
  }
  object_created((__bridge const void*)object_class, class_getName(object_class));
  return object;
}

void destroy_object(id object) {
  const Class object_class = object_getClass(object);
  objc_destructInstance(object);
  object_destroyed((__bridge const void*)object_class);
  auto* header = header_of(object);
  if (!settings().validation) {
    std::free(header);
    return;
  }
  std::memset(reinterpret_cast<void*>(object), 0xDB, class_getInstanceSize(object_class));
  header->destroyed_class = object_class;
  object_setClass(object, destroyed_object_marker());
  quarantine(header);
}

int64_t increment_retain_count(id object) {
  return header_of(object)->retain_count.fetch_add(1, std::memory_order_relaxed) + 1;
}

int64_t decrement_retain_count(id object) {
  return header_of(object)->retain_count.fetch_sub(1, std::memory_order_acq_rel) - 1;
}

int64_t get_retain_count(id object) {
  return header_of(object)->retain_count.load(std::memory_order_relaxed);
}

Class destroyed_object_class(id object) {
  if (object_getClass(object) != destroyed_object_marker()) {
    return Nil;
  }
  return header_of(object)->destroyed_class;
}

} // namespace mps_simulator

struct _Unwind_Exception;
struct _Unwind_Context;

extern "C" {

int __gxx_personality_v0(int version,
                         int actions,
                         uint64_t exception_class,
                         struct _Unwind_Exception* exception,
                         struct _Unwind_Context* context);

// The compiler names this personality for Objective-C++ code on GNU-like
// runtimes. Ours throws C++ exceptions only, which the runtime's own personality
// would not catch.
__attribute__((visibility("default"))) int __gnu_objc_personality_v0(int version,
                                                                     int actions,
                                                                     uint64_t exception_class,
                                                                     struct _Unwind_Exception* exception,
                                                                     struct _Unwind_Context* context) {
  return __gxx_personality_v0(version, actions, exception_class, exception, context);
}
}

namespace mps_simulator {

namespace {

// objc_constructInstance() asks the whole chain of classes for these two; the
// compiler emits them only where there are C++ instance variables.
id construct_nothing(id self, SEL) {
  return self;
}

void destruct_nothing(id, SEL) {}

void handle_mutation(id collection) {
  violation("-[%s countByEnumeratingWithState:objects:count:]: changed while it was enumerated",
            object_getClassName(collection));
}

} // namespace

void install_runtime_hooks(Class root_class) {
  class_addMethod(root_class, sel_registerName(".cxx_construct"), reinterpret_cast<IMP>(construct_nothing), "@16@0:8");
  class_addMethod(root_class, sel_registerName(".cxx_destruct"), reinterpret_cast<IMP>(destruct_nothing), "v16@0:8");
  objc_setForwardHandler(reinterpret_cast<IMP>(mps_simulator_forward),
                         reinterpret_cast<IMP>(mps_simulator_forward_stret));
  objc_setEnumerationMutationHandler(handle_mutation);
}

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
