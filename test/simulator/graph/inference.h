// Finds the types of an operation's results by running its expression.
#pragma once

#include "graph/graph_state.h"

namespace mps_simulator::graph {

struct InferenceInput {
  TensorType type;
  std::optional<at::Tensor> value;
};

// One result per output; a result whose shape cannot be told is not ranked.
std::vector<TensorType> infer_types(
    const Expression& expression,
    const std::vector<InferenceInput>& inputs,
    size_t outputs);

} // namespace mps_simulator::graph
