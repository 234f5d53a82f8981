// Finds the types of an operation's results by running its expression.
#pragma once

#include "graph/graph_state.h"

namespace mps_simulator::graph {

struct InferenceInput {
  TensorType type;
  std::optional<at::Tensor> value;
};

// One result per output; a result whose shape cannot be found is not ranked.
std::vector<TensorType> infer_types(
    const Expression& expression,
    const std::vector<InferenceInput>& inputs,
    size_t outputs);

// Says that an expression looks at the values of an input, so that its result's shape may depend on them.
void note_reading(const at::Tensor& tensor);

} // namespace mps_simulator::graph
