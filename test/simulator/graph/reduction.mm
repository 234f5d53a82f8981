// Reductions, in which the reduced axes stay with the size one; running sums, products and extremes.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "graph/operation.h"
#include "support/counters.h"

#include <ATen/ATen.h>

#include <limits>
#include <optional>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

using Axes = std::vector<int64_t>;
using Reduce = at::Tensor (*)(const at::Tensor& tensor, const Axes& axes);

std::optional<Axes> to_axes(NSArray<NSNumber*>* axes) {
  return axes ? std::optional<Axes>(to_sizes(axes)) : std::nullopt;
}

// No list of axes means all of them.
Axes resolve(const std::optional<Axes>& axes, int64_t rank) {
  Axes result;
  if (axes) {
    for (const int64_t axis : *axes) {
      result.push_back(wrap_axis(axis, rank));
    }
  } else {
    for (int64_t axis = 0; axis < rank; axis++) {
      result.push_back(axis);
    }
  }
  return result;
}

MPSGraphTensor* add_reduced(MPSGraph* graph,
                            const char* kind,
                            std::vector<MPSGraphTensor*> inputs,
                            const std::optional<Axes>& axes,
                            at::ScalarType type,
                            NSString* name,
                            SingleExpression expression) {
  const TensorType& source = inputs[0]->_type;
  if (!source.ranked) {
    return add_dynamic_operation(
        graph, kind, std::move(inputs), to_data_type(type), name, std::move(expression), /*fused=*/true);
  }
  auto sizes = source.sizes;
  for (const int64_t axis : resolve(axes, sizes.size())) {
    if (!sizes.empty()) {
      sizes[axis] = 1;
    }
  }
  return add_shaped_operation(graph,
                              kind,
                              std::move(inputs),
                              to_data_type(type),
                              std::move(sizes),
                              name,
                              std::move(expression),
                              /*fused=*/true);
}

MPSGraphTensor* add_reduction(MPSGraph* graph,
                              const char* kind,
                              MPSGraphTensor* tensor,
                              const std::optional<Axes>& axes,
                              Reduce reduce,
                              NSString* name,
                              std::optional<at::ScalarType> type = std::nullopt) {
  return add_reduced(graph,
                     kind,
                     {tensor},
                     axes,
                     type.value_or(scalar_type_of(tensor)),
                     name,
                     [axes, reduce](const Tensors& inputs) -> at::Tensor {
                       const Axes resolved = resolve(axes, inputs[0].dim());
                       return resolved.empty() ? inputs[0] : reduce(inputs[0], resolved);
                     });
}

// A sum of booleans counts those that are true.
at::ScalarType sum_type(at::ScalarType type) {
  return type == at::kBool ? at::kInt : type;
}

at::Tensor reduce_sum(const at::Tensor& tensor, const Axes& axes) {
  return at::sum(tensor, axes, /*keepdim=*/true, sum_type(tensor.scalar_type()));
}

at::Tensor reduce_product(const at::Tensor& tensor, const Axes& axes) {
  at::Tensor result = tensor;
  for (const int64_t axis : axes) {
    result = at::prod(result, axis, /*keepdim=*/true, tensor.scalar_type());
  }
  return result;
}

at::Tensor reduce_maximum(const at::Tensor& tensor, const Axes& axes) {
  return at::amax(tensor, axes, /*keepdim=*/true);
}

at::Tensor reduce_minimum(const at::Tensor& tensor, const Axes& axes) {
  return at::amin(tensor, axes, /*keepdim=*/true);
}

// Without propagation every number wins against NaN.
at::Tensor without_nan(const at::Tensor& tensor, double loser) {
  return tensor.is_floating_point() ? tensor.masked_fill(at::isnan(tensor), loser) : tensor;
}

at::Tensor reduce_maximum_number(const at::Tensor& tensor, const Axes& axes) {
  return reduce_maximum(without_nan(tensor, -std::numeric_limits<double>::infinity()), axes);
}

at::Tensor reduce_minimum_number(const at::Tensor& tensor, const Axes& axes) {
  return reduce_minimum(without_nan(tensor, std::numeric_limits<double>::infinity()), axes);
}

// Logic keeps the element type: integers stay integers, 0 or 1.
at::Tensor reduce_and(const at::Tensor& tensor, const Axes& axes) {
  at::Tensor result = as_predicate(tensor);
  for (const int64_t axis : axes) {
    result = at::all(result, axis, /*keepdim=*/true);
  }
  return result.to(tensor.scalar_type());
}

at::Tensor reduce_or(const at::Tensor& tensor, const Axes& axes) {
  at::Tensor result = as_predicate(tensor);
  for (const int64_t axis : axes) {
    result = at::any(result, axis, /*keepdim=*/true);
  }
  return result.to(tensor.scalar_type());
}

at::Tensor reduce_mean(const at::Tensor& tensor, const Axes& axes) {
  return at::mean(tensor, axes, /*keepdim=*/true);
}

at::Tensor reduce_variance(const at::Tensor& tensor, const Axes& axes) {
  return at::var(tensor, axes, /*correction=*/at::Scalar(0), /*keepdim=*/true);
}

using ArgumentReduce = at::Tensor (*)(const at::Tensor& tensor, std::optional<int64_t> axis, bool keepdim);

MPSGraphTensor* add_argument_reduction(MPSGraph* graph,
                                       const char* kind,
                                       MPSGraphTensor* tensor,
                                       int64_t axis,
                                       ArgumentReduce reduce,
                                       NSString* name) {
  return add_reduced(graph, kind, {tensor}, Axes{axis}, at::kInt, name, [axis, reduce](const Tensors& inputs) {
    return reduce(inputs[0], wrap_axis(axis, inputs[0].dim()), /*keepdim=*/true).to(at::kInt);
  });
}

} // namespace

#define AXES_REDUCTION(method, kind, ...)                                                                      \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axes : (NSArray<NSNumber*>*)axes name : (NSString*)name { \
    COUNT_CALL();                                                                                              \
    return add_reduction(self, kind, tensor, to_axes(axes), __VA_ARGS__);                                      \
  }

#define REDUCTION(method, kind, ...)                                                                 \
  AXES_REDUCTION(method, kind, __VA_ARGS__)                                                          \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axis : (NSInteger)axis name : (NSString*)name { \
    COUNT_CALL();                                                                                    \
    return add_reduction(self, kind, tensor, Axes{axis}, __VA_ARGS__);                               \
  }

@implementation MPSGraph (ReductionOperations)

REDUCTION(reductionSumWithTensor, "reduction_sum", reduce_sum, name, sum_type(scalar_type_of(tensor)))
REDUCTION(reductionProductWithTensor, "reduction_product", reduce_product, name)
REDUCTION(reductionMaximumWithTensor, "reduction_maximum", reduce_maximum_number, name)
REDUCTION(reductionMinimumWithTensor, "reduction_minimum", reduce_minimum_number, name)
REDUCTION(reductionMaximumPropagateNaNWithTensor, "reduction_maximum_nan", reduce_maximum, name)
REDUCTION(reductionMinimumPropagateNaNWithTensor, "reduction_minimum_nan", reduce_minimum, name)
REDUCTION(reductionAndWithTensor, "reduction_and", reduce_and, name)
REDUCTION(reductionOrWithTensor, "reduction_or", reduce_or, name)
AXES_REDUCTION(meanOfTensor, "mean", reduce_mean, name)
AXES_REDUCTION(varianceOfTensor, "variance", reduce_variance, name)

- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor
                         meanTensor:(MPSGraphTensor*)meanTensor
                               axes:(NSArray<NSNumber*>*)axes
                               name:(NSString*)name {
  COUNT_CALL();
  check_same_type("variance", {tensor, meanTensor});
  return add_reduced(self,
                     "variance_with_mean",
                     {tensor, meanTensor},
                     to_axes(axes),
                     scalar_type_of(tensor),
                     name,
                     [axes = to_axes(axes)](const Tensors& inputs) {
                       const at::Tensor difference = inputs[0].sub(inputs[1]);
                       return reduce_mean(difference.mul(difference), resolve(axes, inputs[0].dim()));
                     });
}

- (MPSGraphTensor*)reductionArgMaximumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_argument_reduction(self, "reduction_arg_maximum", tensor, axis, at::argmax, name);
}

- (MPSGraphTensor*)reductionArgMinimumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_argument_reduction(self, "reduction_arg_minimum", tensor, axis, at::argmin, name);
}

@end

// Running sums, products and extremes along an axis.

namespace {

using Accumulate = at::Tensor (*)(const at::Tensor& tensor, int64_t axis);

at::Tensor accumulate_sum(const at::Tensor& tensor, int64_t axis) {
  return at::cumsum(tensor, axis, tensor.scalar_type());
}

at::Tensor accumulate_product(const at::Tensor& tensor, int64_t axis) {
  return at::cumprod(tensor, axis, tensor.scalar_type());
}

struct Scan {
  const char* kind;
  Accumulate accumulate;
  double neutral; // what an exclusive scan starts with
  bool exclusive = false;
  bool reverse = false;

  at::Tensor apply(const at::Tensor& tensor, int64_t axis) const {
    at::Tensor source = reverse ? at::flip(tensor, {axis}) : tensor;
    if (exclusive && tensor.size(axis) > 0) {
      const at::Tensor first = at::full_like(source.narrow(axis, 0, 1), neutral);
      source = at::cat({first, source.narrow(axis, 0, source.size(axis) - 1)}, axis);
    }
    const at::Tensor result = accumulate(source, axis);
    return reverse ? at::flip(result, {axis}) : result;
  }
};

MPSGraphTensor* add_scan(MPSGraph* graph, MPSGraphTensor* tensor, int64_t axis, const Scan& scan, NSString* name) {
  return add_elementwise_operation(
      graph,
      scan.kind,
      {tensor},
      scalar_type_of(tensor),
      name,
      [scan, axis](const Tensors& inputs) { return scan.apply(inputs[0], wrap_axis(axis, inputs[0].dim())); },
      /*fused=*/false);
}

} // namespace

@implementation MPSGraph (CumulativeOperations)

- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_scan(self, tensor, axis, {"cumulative_sum", accumulate_sum, 0}, name);
}

- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor
                                      axis:(NSInteger)axis
                                 exclusive:(BOOL)exclusive
                                   reverse:(BOOL)reverse
                                      name:(NSString*)name {
  COUNT_CALL();
  return add_scan(self, tensor, axis, {"cumulative_sum", accumulate_sum, 0, bool(exclusive), bool(reverse)}, name);
}

- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_scan(self, tensor, axis, {"cumulative_product", accumulate_product, 1}, name);
}

@end
