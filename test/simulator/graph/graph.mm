#include "graph/inference.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph

+ (instancetype)new {
  COUNT_CALL();
  return [[self alloc] init];
}

- (instancetype)init {
  if ((self = [super init])) {
    _options = MPSGraphOptionsDefault;
  }
  return self;
}

- (void)dealloc {
  for (MPSGraphOperation* operation : _operations) {
    [operation release];
  }
  [super dealloc];
}

- (NSArray<MPSGraphTensor*>*)placeholderTensors {
  COUNT_CALL();
  return [NSArray arrayWithObjects:_placeholders.data() count:_placeholders.size()];
}

@end

namespace mps_simulator::graph {

namespace {

// Values of at most this many elements are kept: sizes, axes and the like.
constexpr int64_t largest_known_value = 64;

std::string to_string(NSString* text) {
  return text ? text.UTF8String : "";
}

// An operation on values that are all known has a known value itself.
void fold(MPSGraphOperation* operation) {
  for (MPSGraphTensor* input : operation->_inputs) {
    if (!input->_value) {
      return;
    }
  }
  for (MPSGraphTensor* output : operation->_outputs) {
    if (!output->_type.is_static() || c10::multiply_integers(output->_type.sizes) > largest_known_value) {
      return;
    }
  }
  Tensors inputs;
  for (MPSGraphTensor* input : operation->_inputs) {
    inputs.push_back(*input->_value);
  }
  const ComputingGuard guard;
  const Tensors values = operation->_node->expression(inputs);
  for (size_t i = 0; i < values.size(); i++) {
    operation->_outputs[i]->_value = values[i];
  }
}

MPSGraphOperation* add_inferred(MPSGraph* graph,
                                const char* kind,
                                std::vector<MPSGraphTensor*> inputs,
                                size_t outputs,
                                Expression expression,
                                NSString* name,
                                bool fused = false) {
  std::vector<InferenceInput> known;
  known.reserve(inputs.size());
  for (MPSGraphTensor* input : inputs) {
    if (!input) {
      violation("-[MPSGraph]: '%s' is given nil for a tensor", kind);
    }
    known.push_back({input->_type, input->_value});
  }
  std::vector<TensorType> types;
  try {
    types = infer_types(expression, known, outputs);
  } catch (const ValidationError&) {
    throw;
  } catch (const c10::NotImplementedError&) {
    // Also thrown by a CPU kernel that lacks a data type.
    rethrow_as_execution_error(std::current_exception());
  } catch (const c10::Error& error) {
    violation("-[MPSGraph]: '%s' does not fit its operands: %s", kind, error.what_without_backtrace());
  } catch (const std::runtime_error& error) {
    violation("-[MPSGraph]: '%s' does not fit its operands: %s", kind, error.what());
  }
  MPSGraphOperation* operation =
      append_operation(graph, kind, std::move(inputs), std::move(types), std::move(expression), name, fused);
  if (!operation->_inputs.empty()) {
    fold(operation);
  }
  return operation;
}

// An unknown size gives way to a known one other than 1.
void broadcast_sizes(const char* kind, std::vector<int64_t>& sizes, const std::vector<int64_t>& others) {
  if (sizes.size() < others.size()) {
    sizes.insert(sizes.begin(), others.size() - sizes.size(), 1);
  }
  const size_t skipped = sizes.size() - others.size();
  for (size_t axis = 0; axis < others.size(); axis++) {
    int64_t& size = sizes[axis + skipped];
    const int64_t other = others[axis];
    if (size == 1 || (size < 0 && other != 1)) {
      size = other;
    } else if (other != size && other != 1 && other >= 0) {
      violation("-[MPSGraph]: '%s' does not fit its operands: %s and %s do not broadcast",
                kind,
                describe(sizes).c_str(),
                describe(others).c_str());
    }
  }
}

TensorType broadcast_type(const char* kind, const std::vector<MPSGraphTensor*>& inputs) {
  TensorType result;
  result.ranked = true;
  for (MPSGraphTensor* input : inputs) {
    if (!input) {
      violation("-[MPSGraph]: '%s' is given nil for a tensor", kind);
    }
    if (!input->_type.ranked) {
      return {};
    }
    broadcast_sizes(kind, result.sizes, input->_type.sizes);
  }
  return result;
}

Expression as_list(SingleExpression expression) {
  return [expression = std::move(expression)](const Tensors& inputs) { return Tensors{expression(inputs)}; };
}

} // namespace

MPSGraphOperation* append_operation(MPSGraph* graph,
                                    const char* kind,
                                    std::vector<MPSGraphTensor*> inputs,
                                    std::vector<TensorType> outputs,
                                    Expression expression,
                                    NSString* name,
                                    bool fused,
                                    bool pointwise,
                                    std::shared_ptr<const CallSite> call) {
  for (MPSGraphTensor* input : inputs) {
    if (!input || input->_producer->_owner != graph) {
      violation("-[MPSGraph]: '%s' is given a tensor that does not belong to the graph", kind);
    }
  }
  auto node = std::make_shared<const Node>(
      Node{kind, to_string(name), std::move(expression), fused, pointwise, std::move(call)});
  MPSGraphOperation* operation = [[MPSGraphOperation alloc] initWithNode:std::move(node)
                                                                  inputs:std::move(inputs)
                                                                   graph:graph];
  for (TensorType& type : outputs) {
    MPSGraphTensor* tensor = [[MPSGraphTensor alloc] initWithType:std::move(type)
                                                       identifier:static_cast<uint32_t>(graph->_tensors.size())
                                                         producer:operation];
    operation->_outputs.push_back(tensor);
    graph->_tensors.push_back(tensor);
  }
  graph->_operations.push_back(operation);
  return operation;
}

MPSGraphTensor* add_operation(MPSGraph* graph,
                              const char* kind,
                              std::vector<MPSGraphTensor*> inputs,
                              NSString* name,
                              SingleExpression expression,
                              bool fused) {
  return add_inferred(graph, kind, std::move(inputs), 1, as_list(std::move(expression)), name, fused)->_outputs[0];
}

NSArray<MPSGraphTensor*>* add_operations(MPSGraph* graph,
                                         const char* kind,
                                         std::vector<MPSGraphTensor*> inputs,
                                         size_t outputs,
                                         NSString* name,
                                         Expression expression) {
  return add_inferred(graph, kind, std::move(inputs), outputs, std::move(expression), name).outputTensors;
}

MPSGraphTensor* add_dynamic_operation(MPSGraph* graph,
                                      const char* kind,
                                      std::vector<MPSGraphTensor*> inputs,
                                      MPSDataType type,
                                      NSString* name,
                                      SingleExpression expression,
                                      bool fused) {
  TensorType output;
  output.type = to_scalar_type(type);
  return append_operation(graph, kind, std::move(inputs), {output}, as_list(std::move(expression)), name, fused)
      ->_outputs[0];
}

MPSGraphTensor* add_elementwise_operation(MPSGraph* graph,
                                          const char* kind,
                                          std::vector<MPSGraphTensor*> inputs,
                                          at::ScalarType type,
                                          NSString* name,
                                          SingleExpression expression,
                                          bool fused) {
  TensorType output = broadcast_type(kind, inputs);
  output.type = type;
  MPSGraphOperation* operation =
      append_operation(graph,
                       kind,
                       std::move(inputs),
                       {std::move(output)},
                       as_list(std::move(expression)),
                       name,
                       fused,
                       // The others have only the shape of such an operation; a cumulative sum, for example.
                       /*pointwise=*/fused);
  fold(operation);
  return operation->_outputs[0];
}

MPSGraphTensor* add_shaped_operation(MPSGraph* graph,
                                     const char* kind,
                                     std::vector<MPSGraphTensor*> inputs,
                                     MPSDataType type,
                                     std::vector<int64_t> sizes,
                                     NSString* name,
                                     SingleExpression expression,
                                     bool fused) {
  TensorType output;
  output.type = to_scalar_type(type);
  output.ranked = true;
  output.sizes = std::move(sizes);
  return append_operation(
             graph, kind, std::move(inputs), {std::move(output)}, as_list(std::move(expression)), name, fused)
      ->_outputs[0];
}

} // namespace mps_simulator::graph
