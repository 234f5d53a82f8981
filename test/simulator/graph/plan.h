// The steps that lead from given feeds to given targets.
#pragma once

#include "graph/graph_state.h"

namespace mps_simulator::graph {

struct Step {
  std::shared_ptr<const Node> node;
  std::vector<uint32_t> inputs; // slots
  std::vector<uint32_t> outputs;
  std::vector<at::ScalarType> types; // of the outputs
  std::vector<uint32_t> last_uses; // slots that nothing needs after this step
};

struct Plan {
  static constexpr uint32_t unused = UINT32_MAX;

  std::vector<Step> steps;
  uint32_t slots = 0;
  std::vector<uint32_t> feeds; // slot of each feed, or `unused`
  std::vector<uint32_t> targets;

  // Computes the values of the targets. Intermediate values are released after their last use.
  Tensors run(Tensors feeds) const;

  // Types of the targets for feeds of these types.
  std::vector<TensorType> infer(const std::vector<TensorType>& feed_types) const;
};

std::shared_ptr<const Plan> make_plan(const std::vector<MPSGraphTensor*>& feeds,
                                      const std::vector<MPSGraphTensor*>& targets);

// The same out of the graph's cache.
std::shared_ptr<const Plan> cached_plan(MPSGraph* graph,
                                        const std::vector<MPSGraphTensor*>& feeds,
                                        const std::vector<MPSGraphTensor*>& targets);

} // namespace mps_simulator::graph
