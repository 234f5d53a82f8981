// Finds the types of an operation's results by running its expression; the state of a thread in which expressions run.
#pragma once

#include "graph/graph_state.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace mps_simulator::graph {

struct InferenceInput {
  TensorType type;
  std::optional<at::Tensor> value;
};

// One result per output; a result whose shape cannot be found is not ranked.
std::vector<TensorType> infer_types(const Expression& expression,
                                    const std::vector<InferenceInput>& inputs,
                                    size_t outputs);

// Says that an expression looks at the values of an input, so that its result's shape may depend on them.
void note_reading(const at::Tensor& tensor);

// The state of a thread in which expressions run.
// Straight to the kernels: no autograd, no autocast, no transforms and no Python
// modes that the caller may have on.
struct ComputingGuard {
  ComputingGuard()
      : others(c10::autocast_dispatch_keyset |
               c10::DispatchKeySet({c10::DispatchKey::Python,
                                    c10::DispatchKey::PythonTLSSnapshot,
                                    c10::DispatchKey::Functionalize,
                                    c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                    c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                                    c10::DispatchKey::FuncTorchBatched})) {}

  at::AutoDispatchBelowADInplaceOrView autograd;
  c10::impl::ExcludeDispatchKeyGuard others;
};

} // namespace mps_simulator::graph
