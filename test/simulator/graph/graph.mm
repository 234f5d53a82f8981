#include "graph/inference.h"
#include "support/counters.h"
#include "support/error.h"

#include <map>
#include <string_view>

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

// The same as COUNT_CALL() in the method, which is a caller of this one.
void count_call(const char* method) {
  static std::mutex mutex;
  // Never destroyed: counters are read while the process exits.
  static auto& counters = *new std::map<std::string_view, CallCounter>;
  const std::lock_guard<std::mutex> lock(mutex);
  CallCounter& counter = counters.try_emplace(method, method).first->second;
  if (counter.count.fetch_add(1, std::memory_order_relaxed) == 0) {
    register_counter(counter);
  }
}

MPSGraphOperation* add_inferred(MPSGraph* graph,
                                const char* kind,
                                Inputs inputs,
                                size_t outputs,
                                Expression expression,
                                NSString* name,
                                const char* method,
                                bool fused = false) {
  count_call(method);
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
                                    Inputs inputs,
                                    std::vector<TensorType> outputs,
                                    Expression expression,
                                    NSString* name,
                                    bool fused) {
  for (MPSGraphTensor* input : inputs) {
    if (!input || input->_producer->_owner != graph) {
      violation("-[MPSGraph]: '%s' is given a tensor that does not belong to the graph", kind);
    }
  }
  auto node = std::make_shared<const Node>(Node{kind, to_string(name), std::move(expression), fused});
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
                              Inputs inputs,
                              NSString* name,
                              SingleExpression expression,
                              bool fused,
                              const char* method) {
  return add_inferred(graph, kind, std::move(inputs), 1, as_list(std::move(expression)), name, method, fused)
      ->_outputs[0];
}

NSArray<MPSGraphTensor*>* add_operations(MPSGraph* graph,
                                         const char* kind,
                                         Inputs inputs,
                                         size_t outputs,
                                         NSString* name,
                                         Expression expression,
                                         const char* method) {
  return outputs_of(add_inferred(graph, kind, std::move(inputs), outputs, std::move(expression), name, method));
}

MPSGraphTensor* add_elementwise_operation(MPSGraph* graph,
                                          const char* kind,
                                          Inputs inputs,
                                          at::ScalarType type,
                                          NSString* name,
                                          SingleExpression expression,
                                          bool fused,
                                          const char* method) {
  count_call(method);
  TensorType output = broadcast_type(kind, inputs);
  output.type = type;
  MPSGraphOperation* operation = append_operation(
      graph, kind, std::move(inputs), {std::move(output)}, as_list(std::move(expression)), name, fused);
  fold(operation);
  return operation->_outputs[0];
}

MPSGraphTensor* add_shaped_operation(MPSGraph* graph,
                                     const char* kind,
                                     Inputs inputs,
                                     at::ScalarType type,
                                     std::optional<Sizes> sizes,
                                     NSString* name,
                                     SingleExpression expression,
                                     bool fused,
                                     const char* method) {
  count_call(method);
  TensorType output{sizes.has_value(), sizes.value_or(Sizes()), type};
  return append_operation(
             graph, kind, std::move(inputs), {std::move(output)}, as_list(std::move(expression)), name, fused)
      ->_outputs[0];
}

Expression without_nil(Inputs& inputs, Expression expression) {
  std::vector<bool> given;
  for (MPSGraphTensor* input : inputs) {
    given.push_back(input != nil);
  }
  inputs.erase(std::remove(inputs.begin(), inputs.end(), nil), inputs.end());
  return [given, expression = std::move(expression)](const Tensors& present) {
    Tensors all(given.size());
    size_t next = 0;
    for (size_t i = 0; i < given.size(); i++) {
      if (given[i]) {
        all[i] = present[next++];
      }
    }
    return expression(all);
  };
}

SingleExpression without_nil(Inputs& inputs, SingleExpression expression) {
  return
      [all = without_nil(inputs, as_list(std::move(expression)))](const Tensors& present) { return all(present)[0]; };
}

} // namespace mps_simulator::graph
