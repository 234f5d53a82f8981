// The state of a thread in which expressions run.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace mps_simulator::graph {

// Straight to the kernels: no autograd, no autocast, no transforms and no Python
// modes that the caller may have on.
struct ComputingGuard {
  ComputingGuard()
      : others(
            c10::autocast_dispatch_keyset |
            c10::DispatchKeySet(
                {c10::DispatchKey::Python,
                 c10::DispatchKey::PythonTLSSnapshot,
                 c10::DispatchKey::Functionalize,
                 c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                 c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                 c10::DispatchKey::FuncTorchBatched})) {}

  at::AutoDispatchBelowADInplaceOrView autograd;
  c10::impl::ExcludeDispatchKeyGuard others;
};

} // namespace mps_simulator::graph
