// Sorting, where equal values keep their order and NaN is greater than everything; indices of elements.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/counters.h"

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

@end

// Operations between elements and their indices.

@implementation MPSGraph (IndexOperations)

- (MPSGraphTensor*)oneHotWithIndicesTensor:(MPSGraphTensor*)indicesTensor
                                     depth:(NSUInteger)depth
                                      axis:(NSUInteger)axis
                                  dataType:(MPSDataType)dataType
                                   onValue:(double)onValue
                                  offValue:(double)offValue
                                      name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self,
                       "one_hot",
                       {indicesTensor},
                       name,
                       [depth = static_cast<int64_t>(depth),
                        axis = static_cast<int64_t>(axis),
                        type = to_scalar_type(dataType),
                        onValue,
                        offValue](const Tensors& inputs) {
                         const int64_t position = wrap_axis(axis, inputs[0].dim() + 1);
                         std::vector<int64_t> along(inputs[0].dim() + 1, 1);
                         along[position] = depth;
                         const at::Tensor classes = at::arange(depth, inputs[0].options().dtype(at::kLong)).view(along);
                         // An index that is none of the classes gives the off value everywhere.
                         const at::Tensor on = at::eq(inputs[0].to(at::kLong).unsqueeze(position), classes);
                         return at::full(on.sizes(), offValue, on.options().dtype(type)).masked_fill(on, onValue);
                       });
}

// Apple documents 32-bit indices, but callers give the results 64 bits and read
// the right numbers, so that is simulated.
- (MPSGraphTensor*)nonZeroIndicesOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_dynamic_operation(self, "non_zero_indices", {tensor}, MPSDataTypeInt64, name, [](const Tensors& inputs) {
    return at::nonzero(inputs[0]);
  });
}

@end
