// How an operation of MPSGraph is added: one ATen expression, which gives the
// shapes when the graph is built and the values when a command runs.
//
// The expression is pure (it never writes to its inputs) and keeps nothing of
// the calling thread. It runs
//  - on samples while the graph is built, to find shapes and types: CPU tensors
//    with the known values (constants, shapes), else with zeros that take no
//    memory. So an expression may read an input with `values_of` to learn a size
//    or an axis. Where computing is long, or zeros are no good, it asks
//    `is_sample` and returns an empty tensor of the right shape and type.
//  - on CPU tensors on the GPU thread, contiguous or not.
// (Not on meta tensors: their kernels are in Python once torch is imported.)
//
// Objective-C objects must not be captured by an expression: convert them first
// (`to_sizes`, numbers out of descriptors), since they may be changed or
// released before the expression runs.
#pragma once

#include <ATen/Tensor.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace mps_simulator::graph {

using Tensors = std::vector<at::Tensor>;
using Sizes = std::vector<int64_t>;
using Inputs = std::vector<MPSGraphTensor*>;
using Expression = std::function<Tensors(const Tensors&)>;
using SingleExpression = std::function<at::Tensor(const Tensors&)>;

// `fused` and `add_fused_operation` are for what MPSGraph puts into one kernel with its neighbours: operations
// on elements, reductions, products with what follows. Between them half and
// bfloat have the precision of float: expressions see float then, and results are
// rounded where anything else reads them.
//
// `kind` names the operation in errors and labels; it must be a string literal.
// `method` is the caller, whose calls are counted.
MPSGraphTensor* add_operation(MPSGraph* graph,
                              const char* kind,
                              Inputs inputs,
                              NSString* name,
                              SingleExpression expression,
                              bool fused = false,
                              const char* method = __builtin_FUNCTION());

inline MPSGraphTensor* add_fused_operation(MPSGraph* graph,
                                           const char* kind,
                                           Inputs inputs,
                                           NSString* name,
                                           SingleExpression expression,
                                           const char* method = __builtin_FUNCTION()) {
  return add_operation(graph, kind, std::move(inputs), name, std::move(expression), /*fused=*/true, method);
}

NSArray<MPSGraphTensor*>* add_operations(MPSGraph* graph,
                                         const char* kind,
                                         Inputs inputs,
                                         size_t outputs,
                                         NSString* name,
                                         Expression expression,
                                         const char* method = __builtin_FUNCTION());

// With the type of the result given: nothing runs when the graph is built.
// `sizes` may hold -1; without them the shape depends on values, and the tensor has none.
MPSGraphTensor* add_shaped_operation(MPSGraph* graph,
                                     const char* kind,
                                     Inputs inputs,
                                     at::ScalarType type,
                                     std::optional<Sizes> sizes,
                                     NSString* name,
                                     SingleExpression expression,
                                     bool fused = false,
                                     const char* method = __builtin_FUNCTION());

// The result has the shape to which the inputs broadcast.
MPSGraphTensor* add_elementwise_operation(MPSGraph* graph,
                                          const char* kind,
                                          Inputs inputs,
                                          at::ScalarType type,
                                          NSString* name,
                                          SingleExpression expression,
                                          bool fused = true,
                                          const char* method = __builtin_FUNCTION());

// Takes the inputs that are nil out of the list; the expression sees undefined tensors in their places.
Expression without_nil(Inputs& inputs, Expression expression);
SingleExpression without_nil(Inputs& inputs, SingleExpression expression);

// A method that takes a tensor and one more argument: the expression sees them as `x` and `a`.
#define TENSOR_METHOD(add, method, label, type, kind, ...)                                                 \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor label : (type)argument name : (NSString*)name {       \
    return add(self, kind, {tensor}, name, [a = to_value(argument)](const Tensors& inputs) -> at::Tensor { \
      const at::Tensor& x = inputs[0];                                                                     \
      return __VA_ARGS__;                                                                                  \
    });                                                                                                    \
  }

// The gradient of `function` at `input`, by ATen. Where the function's value is
// larger than the incoming gradient, the rest of it has no part in that.
at::Tensor gradient_of(const std::function<at::Tensor(const at::Tensor& input)>& function,
                       const at::Tensor& input,
                       const at::Tensor& incoming);

// Whether an input of an expression is a sample: only its shape and type mean something.
bool is_sample(const at::Tensor& tensor);

at::ScalarType to_scalar_type(MPSDataType type);
MPSDataType to_data_type(at::ScalarType type);

Sizes to_sizes(NSArray<NSNumber*>* shape);
NSArray<NSNumber*>* to_shape(at::IntArrayRef sizes);

inline int64_t to_value(NSInteger number) {
  return number;
}
inline Sizes to_value(NSArray<NSNumber*>* shape) {
  return to_sizes(shape);
}

template <typename T>
std::vector<T> to_vector(NSArray* array) {
  std::vector<T> items;
  items.reserve(array.count);
  for (T item in array) {
    items.push_back(item);
  }
  return items;
}

// A negative axis counts from the end. Out of range is a violation.
int64_t wrap_axis(int64_t axis, int64_t rank);
Sizes wrap_axes(const Sizes& axes, int64_t rank);

// The type of a tensor of the graph as ATen names it.
at::ScalarType scalar_type_of(MPSGraphTensor* tensor);

// The result has the type and the shape of the first input, and the operation is no part of a fused kernel.
inline MPSGraphTensor* add_alike_operation(MPSGraph* graph,
                                           const char* kind,
                                           Inputs inputs,
                                           NSString* name,
                                           SingleExpression expression,
                                           const char* method = __builtin_FUNCTION()) {
  const at::ScalarType type = scalar_type_of(inputs[0]);
  return add_elementwise_operation(graph, kind, std::move(inputs), type, name, std::move(expression), false, method);
}

// Rank of a tensor of the graph, or -1 when it is not known.
int64_t rank_of(MPSGraphTensor* tensor);

// The integers that a small tensor holds.
Sizes values_of(const at::Tensor& tensor);

// Violation unless all tensors have one type, as MPSGraph demands of most operations.
void check_same_type(const char* kind, const Inputs& tensors);

} // namespace mps_simulator::graph
