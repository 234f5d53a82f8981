// What is behind the classes of MPSGraph; private to the core of graph/.
#pragma once

#include "graph/operation.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace mps_simulator::graph {

// The computing part of an operation. Plans share it, so that a command needs no
// Objective-C object and outlives the graph.
struct Node {
  const char* kind;
  std::string name;
  Expression expression; // empty for a placeholder
  // Runs of these are one kernel, in which values of 16 bits have 32.
  bool fused = false;
};

// The type of a tensor as far as it is known when the graph is built.
struct TensorType {
  bool ranked = false;
  std::vector<int64_t> sizes; // may hold -1
  at::ScalarType type = at::ScalarType::Undefined;

  bool is_static() const;
};

struct Plan;

struct IdentifiersHash {
  size_t operator()(const std::vector<uint32_t>& identifiers) const;
};
using PlanCache = std::unordered_map<std::vector<uint32_t>, std::shared_ptr<const Plan>, IdentifiersHash>;

} // namespace mps_simulator::graph

@interface MPSGraphTensor () {
 @public
  mps_simulator::graph::TensorType _type;
  std::optional<at::Tensor> _value; // when known without running anything
  uint32_t _identifier; // position among the tensors of its graph
  MPSGraphOperation* _producer; // owns this tensor
  MPSShape* _shapeArray;
}
- (instancetype)initWithType:(mps_simulator::graph::TensorType)type
                  identifier:(uint32_t)identifier
                    producer:(MPSGraphOperation*)producer;
@end

@interface MPSGraphOperation () {
 @public
  std::shared_ptr<const mps_simulator::graph::Node> _node;
  std::vector<MPSGraphTensor*> _inputs; // owned by the graph
  std::vector<MPSGraphTensor*> _outputs; // retained
  MPSGraph* _owner; // owns this operation
}
- (instancetype)initWithNode:(std::shared_ptr<const mps_simulator::graph::Node>)node
                      inputs:(std::vector<MPSGraphTensor*>)inputs
                       graph:(MPSGraph*)graph;
@end

@interface MPSGraph () {
 @public
  std::vector<MPSGraphOperation*> _operations; // retained, each after those it needs
  std::vector<MPSGraphTensor*> _tensors; // by identifier
  std::vector<MPSGraphTensor*> _placeholders;
  std::mutex _planMutex;
  mps_simulator::graph::PlanCache _plans;
}
@end

namespace mps_simulator::graph {

// Adds an operation with outputs of these types.
MPSGraphOperation* append_operation(MPSGraph* graph,
                                    const char* kind,
                                    Inputs inputs,
                                    std::vector<TensorType> outputs,
                                    Expression expression,
                                    NSString* name,
                                    bool fused = false);

inline NSArray<MPSGraphTensor*>* outputs_of(MPSGraphOperation* operation) {
  return [NSArray arrayWithObjects:operation->_outputs.data() count:operation->_outputs.size()];
}

// "'name' (3)" or "3": how errors call a tensor.
std::string describe(MPSGraphTensor* tensor);
std::string describe(at::IntArrayRef sizes);

} // namespace mps_simulator::graph
