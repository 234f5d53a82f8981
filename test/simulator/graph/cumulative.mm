// Running sums, products and extremes along an axis.
#include "graph/operation.h"
#include "support/counters.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

using Accumulate = at::Tensor (*)(const at::Tensor& tensor, int64_t axis);

at::Tensor accumulate_sum(const at::Tensor& tensor, int64_t axis) {
  return at::cumsum(tensor, axis, tensor.scalar_type());
}

at::Tensor accumulate_product(const at::Tensor& tensor, int64_t axis) {
  return at::cumprod(tensor, axis, tensor.scalar_type());
}

at::Tensor accumulate_maximum(const at::Tensor& tensor, int64_t axis) {
  return std::get<0>(at::cummax(tensor, axis));
}

at::Tensor accumulate_minimum(const at::Tensor& tensor, int64_t axis) {
  return std::get<0>(at::cummin(tensor, axis));
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

- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString*)name {
  COUNT_CALL();
  const Scan scan{
      "cumulative_product", accumulate_product, 1, static_cast<bool>(exclusive), static_cast<bool>(reverse)};
  return add_scan(self, tensor, axis, scan, name);
}

- (MPSGraphTensor*)cumulativeMaximumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_scan(self, tensor, axis, {"cumulative_maximum", accumulate_maximum, 0}, name);
}

- (MPSGraphTensor*)cumulativeMinimumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_scan(self, tensor, axis, {"cumulative_minimum", accumulate_minimum, 0}, name);
}

@end
