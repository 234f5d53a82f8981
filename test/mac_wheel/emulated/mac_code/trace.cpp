// Notes the messages of the simulator's library on the main thread. Loaded in front of the runtime, whose functions it has.

#include <dlfcn.h>
#include <unistd.h>

#define SHARED extern "C" __attribute__((visibility("default")))

namespace {

struct Message {
  const void *receiver_class, *selector, *caller;
};

Message messages[1 << 20];
unsigned long count = 0;

template <typename Function>
Function next(const char* name) {
  static void* const runtime = dlopen("libobjfwrt.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<Function>(dlsym(runtime, name));
}

void note(const void* receiver_class, const void* selector, const void* caller) {
  if (receiver_class != nullptr && getpid() == gettid() && count < sizeof(messages) / sizeof(*messages)) {
    messages[count++] = {receiver_class, selector, caller};
  }
}

thread_local bool inside = false;

struct Inside {
  const bool before = inside;
  Inside() { inside = true; }
  ~Inside() { inside = before; }
};

const void* class_of(const void* receiver) {
  static const auto function = next<const void* (*)(const void*)>("object_getClass");
  return function(receiver);
}

} // namespace

#define TRACED(name, receiver_class)                                                \
  SHARED void* name(const void* const* receiver, const void* selector) {            \
    static const auto function = next<void* (*)(const void*, const void*)>(#name);  \
    if (!inside) {                                                                  \
      note(receiver_class, selector, __builtin_return_address(0));                  \
    }                                                                               \
    /* The runtime looks twice for a class that it has to set up. */                \
    const Inside while_it_looks;                                                    \
    return function(receiver, selector);                                            \
  }

TRACED(objc_msg_lookup, class_of(receiver))
TRACED(objc_msg_lookup_stret, class_of(receiver))
// The receiver and its superclass.
TRACED(objc_msg_lookup_super, receiver[1])

SHARED const Message* mac_code_messages() {
  return messages;
}

SHARED unsigned long mac_code_take_count() {
  const auto taken = count;
  count = 0;
  return taken;
}
