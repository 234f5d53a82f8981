// The steps that lead from given feeds to given targets.
#pragma once

#include "graph/graph_state.h"

#include <functional>

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
  // Whether executables are called.
  bool has_calls = false;

  // Computes the values of the targets. Intermediate values are released after their last use.
  Tensors run(Tensors feeds) const;

  // Runs the steps in any order that the data allows, and hands over the value of each target as soon as there is one:
  // what a graph of calls may do.
  void run_in_any_order(const Tensors& feeds,
                        const std::function<void(size_t target, const at::Tensor& value)>& done) const;

  // Whether all that reads the feed is over when the target has its value, in whatever order the steps run. A tensor
  // that is no executable's result may be a view of the feed.
  bool is_read_before(size_t feed, size_t target) const;

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
