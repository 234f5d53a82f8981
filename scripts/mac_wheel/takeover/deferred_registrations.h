#pragma once

// Included before every source of the library (-include), the backend's too.
//
// The backend registers its operators, stubs, guard and hooks by objects with
// static constructors, which would run when the library is loaded: before
// anything can be checked, and with no way back. These macros stand for the
// originals, and note what is to be registered instead; takeOver() does it.
// MPSAllocatorCallbacksRegistry is the backend's own and needs none of this.

#if defined(__cplusplus)

#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/native/DispatchStub.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "deferred.h"

#undef _TORCH_LIBRARY_IMPL
#define _TORCH_LIBRARY_IMPL(ns, k, m, uid)                                  \
  static void C10_CONCATENATE(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, uid)(  \
      torch::Library&);                                                     \
  static const ::torch_mps_graph::DeferredLibrary C10_CONCATENATE(          \
      TORCH_LIBRARY_IMPL_static_init_##ns##_##k##_, uid)(                   \
      #ns,                                                                  \
      c10::DispatchKey::k,                                                  \
      &C10_CONCATENATE(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, uid),         \
      __FILE__,                                                             \
      __LINE__);                                                            \
  void C10_CONCATENATE(TORCH_LIBRARY_IMPL_init_##ns##_##k##_, uid)(         \
      torch::Library & m)

// A new operator can't be taken over, and nothing in the backend defines one.
#undef TORCH_LIBRARY
#define TORCH_LIBRARY(ns, m) static_assert(false, "define operators outside of the library")
#undef TORCH_LIBRARY_FRAGMENT
#define TORCH_LIBRARY_FRAGMENT(ns, m) static_assert(false, "define operators outside of the library")

#undef REGISTER_MPS_DISPATCH
#define REGISTER_MPS_DISPATCH(name, fn)                                  \
  static const ::torch_mps_graph::DeferredPointer name##__register([] { \
    name.set_mps_dispatch_ptr(fn);                                       \
  });

#undef C10_REGISTER_GUARD_IMPL
#define C10_REGISTER_GUARD_IMPL(DevType, DeviceGuardImpl)           \
  static const ::torch_mps_graph::DeferredPointer                  \
      C10_ANONYMOUS_VARIABLE(g_##DevType)([] {                      \
        ::c10::impl::DeviceGuardImplRegistrar registrar(            \
            ::c10::DeviceType::DevType, new DeviceGuardImpl());     \
      });

// takeOver() calls the function: without this header the library does not link,
// rather than end every program that loads it.
#undef REGISTER_MPS_HOOKS
#define REGISTER_MPS_HOOKS(clsname)                                        \
  static const ::torch_mps_graph::DeferredHooks C10_ANONYMOUS_VARIABLE(   \
      g_##clsname)([]() -> std::unique_ptr<at::MPSHooksInterface> {        \
    return std::make_unique<clsname>(at::MPSHooksArgs{});                  \
  });                                                                      \
  extern "C" __attribute__((visibility("hidden"))) void                    \
  torch_mps_graph_hooks_are_deferred() {}

#endif
