// Sorting. Equal values keep their order, and NaN is greater than everything.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

namespace mps_simulator::graph {
namespace {

struct Sorted {
  at::Tensor values;
  at::Tensor indices;
};

Sorted sorted(const at::Tensor& tensor, int64_t axis, bool descending) {
  const auto dimension = wrap_axis(axis, tensor.dim());
  auto [values, indices] = at::sort(widen(tensor), /*stable=*/true, dimension, descending);
  return {values.to(tensor.scalar_type()), indices.to(at::kInt)};
}

MPSGraphTensor* add_sort(MPSGraph* graph, MPSGraphTensor* tensor, NSInteger axis, bool descending, NSString* name) {
  return add_operation(
      graph, "sort", {tensor}, name, [=](const Tensors& inputs) { return sorted(inputs[0], axis, descending).values; });
}

MPSGraphTensor* add_argsort(MPSGraph* graph, MPSGraphTensor* tensor, NSInteger axis, bool descending, NSString* name) {
  return add_operation(graph, "argsort", {tensor}, name, [=](const Tensors& inputs) {
    return sorted(inputs[0], axis, descending).indices;
  });
}

NSArray<MPSGraphTensor*>* add_top(MPSGraph* graph,
                                  MPSGraphTensor* tensor,
                                  NSInteger axis,
                                  NSUInteger count,
                                  NSString* name,
                                  const char* call) {
  return add_operations(graph, "top k", {tensor}, 2, name, [=](const Tensors& inputs) -> Tensors {
    const auto dimension = wrap_axis(axis, inputs[0].dim());
    const auto k = static_cast<int64_t>(count);
    if (k > inputs[0].size(dimension)) {
      violation("%s: k is %ld, with %ld elements", call, (long)k, (long)inputs[0].size(dimension));
    }
    const auto all = sorted(inputs[0], dimension, /*descending=*/true);
    return {all.values.narrow(dimension, 0, k), all.indices.narrow(dimension, 0, k)};
  });
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphSortOps)

- (MPSGraphTensor*)sortWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_sort(self, tensor, axis, /*descending=*/false, name);
}

- (MPSGraphTensor*)sortWithTensor:(MPSGraphTensor*)tensor
                             axis:(NSInteger)axis
                       descending:(BOOL)descending
                             name:(NSString*)name {
  COUNT_CALL();
  return add_sort(self, tensor, axis, descending, name);
}

- (MPSGraphTensor*)argSortWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_argsort(self, tensor, axis, /*descending=*/false, name);
}

- (MPSGraphTensor*)argSortWithTensor:(MPSGraphTensor*)tensor
                                axis:(NSInteger)axis
                          descending:(BOOL)descending
                                name:(NSString*)name {
  COUNT_CALL();
  return add_argsort(self, tensor, axis, descending, name);
}

- (NSArray<MPSGraphTensor*>*)topKWithSourceTensor:(MPSGraphTensor*)source k:(NSUInteger)k name:(NSString*)name {
  COUNT_CALL();
  return add_top(self, source, -1, k, name, __func__);
}

- (NSArray<MPSGraphTensor*>*)topKWithSourceTensor:(MPSGraphTensor*)source
                                             axis:(NSInteger)axis
                                                k:(NSUInteger)k
                                             name:(NSString*)name {
  COUNT_CALL();
  return add_top(self, source, axis, k, name, __func__);
}

@end
