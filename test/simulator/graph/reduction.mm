// Reductions, in which the reduced axes stay with the size one; running sums and products.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "graph/operation.h"

#include <ATen/ATen.h>

#include <limits>
#include <numeric>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

using Reduce = at::Tensor (*)(const at::Tensor& tensor, const Sizes& axes);

// No list of axes means all of them.
std::optional<Sizes> to_axes(NSArray* axes) {
  return axes ? std::optional(to_sizes(axes)) : std::nullopt;
}

Sizes resolve(const std::optional<Sizes>& axes, int64_t rank) {
  Sizes all(rank);
  std::iota(all.begin(), all.end(), 0);
  return axes ? wrap_axes(*axes, rank) : all;
}

MPSGraphTensor* add_reduction(MPSGraph* graph,
                              const char* kind,
                              Inputs inputs,
                              const std::optional<Sizes>& axes,
                              at::ScalarType type,
                              NSString* name,
                              Reduce reduce,
                              const char* method = __builtin_FUNCTION()) {
  const TensorType& source = inputs[0]->_type;
  std::optional<Sizes> sizes;
  if (source.ranked) {
    sizes = source.sizes;
    for (const int64_t axis : sizes->empty() ? Sizes() : resolve(axes, sizes->size())) {
      (*sizes)[axis] = 1;
    }
  }
  const auto expression = [axes, reduce](const Tensors& inputs) -> at::Tensor {
    const Sizes resolved = resolve(axes, inputs[0].dim());
    return resolved.empty() ? inputs[0] : reduce(inputs[0], resolved);
  };
  return add_shaped_operation(graph, kind, std::move(inputs), type, sizes, name, expression, /*fused=*/true, method);
}

// A sum of booleans counts those that are true.
at::ScalarType sum_type(at::ScalarType type) {
  return type == at::kBool ? at::kInt : type;
}

at::ScalarType same_type(at::ScalarType type) {
  return type;
}

at::ScalarType index_type(at::ScalarType) {
  return at::kInt;
}

// Without propagation every number wins against NaN.
at::Tensor without_nan(const at::Tensor& tensor, double loser) {
  return tensor.is_floating_point() ? tensor.masked_fill(at::isnan(tensor), loser) : tensor;
}

template <typename Function>
at::Tensor along_each(at::Tensor tensor, const Sizes& axes, Function reduce) {
  for (const int64_t axis : axes) {
    tensor = reduce(tensor, axis);
  }
  return tensor;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace

#define REDUCTION(method, keyword, argument_type, axes, kind, result_type, ...)                                \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor keyword : (argument_type)keyword name : (NSString*)name { \
    const auto type = result_type(scalar_type_of(tensor));                                                     \
    return add_reduction(                                                                                      \
        self, kind, {tensor}, axes, type, name, [](const at::Tensor& x, const Sizes& a) -> at::Tensor {        \
          return __VA_ARGS__;                                                                                  \
        });                                                                                                    \
  }

#define AXES_REDUCTION(method, kind, type, ...) \
  REDUCTION(method, axes, NSArray*, to_axes(axes), kind, type, __VA_ARGS__)
#define AXIS_REDUCTION(method, kind, type, ...) REDUCTION(method, axis, NSInteger, Sizes{axis}, kind, type, __VA_ARGS__)
#define REDUCTIONS(method, kind, type, ...)       \
  AXES_REDUCTION(method, kind, type, __VA_ARGS__) \
  AXIS_REDUCTION(method, kind, type, __VA_ARGS__)

// `x` is reduced along the axes `a`. Logic keeps the element type: integers stay integers, 0 or 1.
@implementation MPSGraph (ReductionOperations)

REDUCTIONS(reductionSumWithTensor, "reduction_sum", sum_type, at::sum(x, a, true, sum_type(x.scalar_type())))
REDUCTIONS(reductionProductWithTensor, "reduction_product", same_type, along_each(x, a, [](auto& t, auto axis) {
             return at::prod(t, axis, true, t.scalar_type());
           }))
REDUCTIONS(reductionMaximumWithTensor, "reduction_maximum", same_type, at::amax(without_nan(x, -infinity), a, true))
REDUCTIONS(reductionMinimumWithTensor, "reduction_minimum", same_type, at::amin(without_nan(x, infinity), a, true))
REDUCTIONS(reductionMaximumPropagateNaNWithTensor, "reduction_maximum_nan", same_type, at::amax(x, a, true))
REDUCTIONS(reductionMinimumPropagateNaNWithTensor, "reduction_minimum_nan", same_type, at::amin(x, a, true))
REDUCTIONS(reductionAndWithTensor, "reduction_and", same_type, at::all(as_predicate(x), a, true).to(x.scalar_type()))
REDUCTIONS(reductionOrWithTensor, "reduction_or", same_type, at::any(as_predicate(x), a, true).to(x.scalar_type()))
AXES_REDUCTION(meanOfTensor, "mean", same_type, at::mean(x, a, true))
AXES_REDUCTION(varianceOfTensor, "variance", same_type, at::var(x, a, /*correction=*/at::Scalar(0), true))
AXIS_REDUCTION(reductionArgMaximumWithTensor,
               "reduction_arg_maximum",
               index_type,
               at::argmax(x, a[0], true).to(at::kInt))
AXIS_REDUCTION(reductionArgMinimumWithTensor,
               "reduction_arg_minimum",
               index_type,
               at::argmin(x, a[0], true).to(at::kInt))

TENSOR_METHOD(add_alike_operation,
              cumulativeSumWithTensor,
              axis,
              NSInteger,
              "cumulative_sum",
              at::cumsum(x, a, x.scalar_type()))
TENSOR_METHOD(add_alike_operation,
              cumulativeProductWithTensor,
              axis,
              NSInteger,
              "cumulative_product",
              at::cumprod(x, a, x.scalar_type()))

@end
