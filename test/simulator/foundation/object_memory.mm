#include "foundation/object_memory.h"

#include "foundation/forwarding.h"
#include "support/error.h"
#include "support/live_objects.h"
#include "support/settings.h"

#include <Foundation/NSObject.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

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

} // namespace mps_simulator
