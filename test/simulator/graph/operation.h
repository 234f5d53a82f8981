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
#include <utility>
#include <vector>

namespace mps_simulator::graph {

using Tensors = std::vector<at::Tensor>;
using Expression = std::function<Tensors(const Tensors&)>;
using SingleExpression = std::function<at::Tensor(const Tensors&)>;

// `fused` and `add_fused_operation` are for what MPSGraph puts into one kernel with its neighbours: operations
// on elements, reductions, products with what follows. Between them half and
// bfloat have the precision of float: expressions see float then, and results are
// rounded where anything else reads them.
//
// `kind` names the operation in errors and labels; it must be a string literal.
MPSGraphTensor* add_operation(MPSGraph* graph,
                              const char* kind,
                              std::vector<MPSGraphTensor*> inputs,
                              NSString* name,
                              SingleExpression expression,
                              bool fused = false);

inline MPSGraphTensor* add_fused_operation(MPSGraph* graph,
                                           const char* kind,
                                           std::vector<MPSGraphTensor*> inputs,
                                           NSString* name,
                                           SingleExpression expression) {
  return add_operation(graph, kind, std::move(inputs), name, std::move(expression), /*fused=*/true);
}

NSArray<MPSGraphTensor*>* add_operations(MPSGraph* graph,
                                         const char* kind,
                                         std::vector<MPSGraphTensor*> inputs,
                                         size_t outputs,
                                         NSString* name,
                                         Expression expression);

// For results whose shape depends on values: the tensor has no shape.
MPSGraphTensor* add_dynamic_operation(MPSGraph* graph,
                                      const char* kind,
                                      std::vector<MPSGraphTensor*> inputs,
                                      MPSDataType type,
                                      NSString* name,
                                      SingleExpression expression,
                                      bool fused = false);

// With the type of the result given: nothing runs when the graph is built.
// `sizes` may hold -1.
MPSGraphTensor* add_shaped_operation(MPSGraph* graph,
                                     const char* kind,
                                     std::vector<MPSGraphTensor*> inputs,
                                     MPSDataType type,
                                     std::vector<int64_t> sizes,
                                     NSString* name,
                                     SingleExpression expression,
                                     bool fused = false);

// The result has the shape to which the inputs broadcast.
MPSGraphTensor* add_elementwise_operation(MPSGraph* graph,
                                          const char* kind,
                                          std::vector<MPSGraphTensor*> inputs,
                                          at::ScalarType type,
                                          NSString* name,
                                          SingleExpression expression,
                                          bool fused = true);

// Whether an input of an expression is a sample: only its shape and type mean something.
bool is_sample(const at::Tensor& tensor);

at::ScalarType to_scalar_type(MPSDataType type);
MPSDataType to_data_type(at::ScalarType type);

std::vector<int64_t> to_sizes(NSArray<NSNumber*>* shape);
NSArray<NSNumber*>* to_shape(at::IntArrayRef sizes);

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

// The type of a tensor of the graph as ATen names it.
at::ScalarType scalar_type_of(MPSGraphTensor* tensor);

// Rank of a tensor of the graph, or -1 when it is not known.
int64_t rank_of(MPSGraphTensor* tensor);

// The integers that a small tensor holds.
std::vector<int64_t> values_of(const at::Tensor& tensor);

// Violation unless all tensors have one type, as MPSGraph demands of most operations.
void check_same_type(const char* kind, const std::vector<MPSGraphTensor*>& tensors);

} // namespace mps_simulator::graph
