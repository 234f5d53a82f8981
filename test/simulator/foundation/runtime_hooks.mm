#include "foundation/runtime_hooks.h"

#include "foundation/forwarding.h"
#include "support/error.h"

#include <cstdint>

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
