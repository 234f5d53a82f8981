// A graph that calls executables, which it knows by names of its own.
#include "graph/executable.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace mps_simulator::graph {

namespace {

constexpr const char* compile_method = "-[MPSGraph compileWithDevice:]";

bool same(const TensorType& left, const TensorType& right) {
  return left.type == right.type && left.ranked == right.ranked && left.sizes == right.sizes;
}

std::string describe(const TensorType& type) {
  return std::string(c10::toString(type.type)) + ' ' + (type.ranked ? graph::describe(type.sizes) : "of any shape");
}

MPSGraphExecutable* find(NSDictionary<NSString*, MPSGraphExecutable*>* callables, const std::string& symbol) {
  MPSGraphExecutable* executable = [callables objectForKey:[NSString stringWithUTF8String:symbol.c_str()]];
  if (!executable) {
    violation("%s: the callables have no executable for the symbol '%s'", compile_method, symbol.c_str());
  }
  return executable;
}

void check_types(const CallSite& call, size_t inputs, const Compiled& called) {
  if (inputs != called.feed_types.size()) {
    violation("%s: the executable for the symbol '%s' takes %zu inputs, not %zu",
              compile_method,
              call.symbol.c_str(),
              called.feed_types.size(),
              inputs);
  }
  if (call.outputs.size() != called.target_types.size()) {
    violation("%s: the executable for the symbol '%s' gives %zu results, not %zu",
              compile_method,
              call.symbol.c_str(),
              called.target_types.size(),
              call.outputs.size());
  }
  for (size_t i = 0; i < call.outputs.size(); i++) {
    if (!same(call.outputs[i], called.target_types[i])) {
      violation("%s: the executable for the symbol '%s' gives %s for its result %zu, not %s",
                compile_method,
                call.symbol.c_str(),
                describe(called.target_types[i]).c_str(),
                i,
                describe(call.outputs[i]).c_str());
    }
  }
}

// A result is a value of its own: what happens to the inputs' memory later does not change it.
at::Tensor detach(const at::Tensor& result, const Tensors& inputs) {
  for (const at::Tensor& input : inputs) {
    if (result.is_alias_of(input)) {
      return result.clone();
    }
  }
  return result;
}

} // namespace

std::shared_ptr<const Plan> resolve_calls(const Plan& plan,
                                          NSDictionary<NSString*, MPSGraphExecutable*>* callables,
                                          ExecutableLife& life) {
  auto resolved = std::make_shared<Plan>(plan);
  for (Step& step : resolved->steps) {
    if (!step.node->call) {
      continue;
    }
    CallSite call = *step.node->call;
    MPSGraphExecutable* executable = find(callables, call.symbol);
    const Compiled& called = executable->_compiled;
    check_types(call, step.inputs.size(), called);
    call.inputs = called.feed_types;
    call.resolved = true;
    Node node = *step.node;
    node.expression = [called_plan = called.plan](const Tensors& inputs) {
      Tensors results = called_plan->run(inputs);
      for (at::Tensor& result : results) {
        result = detach(result, inputs);
      }
      return results;
    };
    node.call = std::make_shared<const CallSite>(std::move(call));
    step.node = std::make_shared<const Node>(std::move(node));
    life.called.push_back(executable->_life);
  }
  return resolved;
}

void check_called(const char* method, const ExecutableLife& life) {
  for (const auto& called : life.called) {
    if (settings().validation && called->released) {
      violation("%s: %s is called, but was released", method, called->name.c_str());
    }
    check_called(method, *called);
  }
}

TensorType to_type(MPSGraphShapedType* shaped) {
  TensorType type;
  type.type = to_scalar_type(shaped.dataType);
  if (MPSShape* shape = shaped.shape) {
    type.ranked = true;
    type.sizes = to_sizes(shape);
  }
  return type;
}

} // namespace mps_simulator::graph

@implementation MPSGraph (CallOp)

- (NSArray<MPSGraphTensor*>*)callSymbolName:(NSString*)symbolName
                               inputTensors:(NSArray<MPSGraphTensor*>*)inputTensors
                                outputTypes:(NSArray<MPSGraphType*>*)outputTypes
                                       name:(NSString*)name {
  COUNT_CALL();
  VALIDATE(symbolName != nil, "the symbol is nil");
  auto call = std::make_shared<CallSite>();
  call->symbol = symbolName.UTF8String;
  for (MPSGraphType* type in outputTypes) {
    VALIDATE([type isKindOfClass:[MPSGraphShapedType class]], "a result of '%s' has no shape", call->symbol.c_str());
    call->outputs.push_back(to_type(static_cast<MPSGraphShapedType*>(type)));
  }
  std::vector<TensorType> outputs = call->outputs;
  const auto unresolved = [symbol = call->symbol](const Tensors&) -> Tensors {
    violation("-[MPSGraph]: the symbol '%s' is called, but the graph was not compiled with callables", symbol.c_str());
  };
  auto inputs = to_vector<MPSGraphTensor*>(inputTensors);
  return outputs_of(append_operation(
      self, "call", std::move(inputs), std::move(outputs), unresolved, name, /*fused=*/false, std::move(call)));
}

@end
