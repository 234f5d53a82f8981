/* Notes the messages of the simulator's library on the main thread. Loaded in front of the runtime, whose functions it has. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

#define SHARED __attribute__((visibility("default")))

typedef struct {
  const void *receiver_class, *selector, *caller;
} Message;

typedef void *Lookup(const void *const *receiver, const void *selector);

SHARED Message mac_code_messages[1 << 20];
SHARED unsigned long mac_code_message_count;
/* The runtime looks twice for a class that it has to set up. */
static _Thread_local bool inside;

static void *of_runtime(const char *name) {
  return dlsym(dlopen("libobjfwrt.so.1", RTLD_NOLOAD | RTLD_LAZY), name);
}

static const void *class_of(const void *receiver) {
  static const void *(*function)(const void *);
  return (function = function ? function : of_runtime("object_getClass"))(receiver);
}

static void note(const void *receiver_class, const void *selector, const void *caller) {
  if (receiver_class && getpid() == gettid() && mac_code_message_count < 1 << 20)
    mac_code_messages[mac_code_message_count++] = (Message){receiver_class, selector, caller};
}

#define TRACED(name, receiver_class)                                           \
  SHARED void *name(const void *const *receiver, const void *selector) {       \
    static Lookup *function;                                                   \
    if (!function) function = of_runtime(#name);                               \
    const bool before = inside;                                                \
    if (!before) note(receiver_class, selector, __builtin_return_address(0));  \
    inside = true;                                                             \
    void *const found = function(receiver, selector);                          \
    inside = before;                                                           \
    return found;                                                              \
  }

TRACED(objc_msg_lookup, class_of(receiver))
TRACED(objc_msg_lookup_stret, class_of(receiver))
/* The receiver and its superclass. */
TRACED(objc_msg_lookup_super, receiver[1])
