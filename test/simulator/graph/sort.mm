// Sorting, where equal values keep their order and NaN is greater than everything; indices of elements.
#include "graph/elementwise.h"
#include "graph/operation.h"

#include <ATen/ATen.h>

using namespace mps_simulator::graph;

namespace {

at::Tensor sorted(const at::Tensor& tensor, int64_t axis, bool descending) {
  return std::get<0>(at::sort(widen(tensor), /*stable=*/true, axis, descending)).to(tensor.scalar_type());
}

at::Tensor order_of(const at::Tensor& tensor, int64_t axis, bool descending) {
  return std::get<1>(at::sort(widen(tensor), /*stable=*/true, axis, descending)).to(at::kInt);
}

} // namespace

#define SORT(method, kind, function)                                                                               \
  TENSOR_METHOD(add_operation, method, axis, NSInteger, kind, function(x, a, /*descending=*/false))                \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axis : (NSInteger)axis descending : (BOOL)descending name     \
      : (NSString*)name {                                                                                          \
    return add_operation(                                                                                          \
        self, kind, {tensor}, name, [=](const Tensors& inputs) { return function(inputs[0], axis, descending); }); \
  }

@implementation MPSGraph (IndexOperations)

SORT(sortWithTensor, "sort", sorted)
SORT(argSortWithTensor, "argsort", order_of)

- (MPSGraphTensor*)oneHotWithIndicesTensor:(MPSGraphTensor*)indices
                                     depth:(NSUInteger)depth
                                      axis:(NSUInteger)axis
                                  dataType:(MPSDataType)dataType
                                   onValue:(double)onValue
                                  offValue:(double)offValue
                                      name:(NSString*)name {
  const auto type = to_scalar_type(dataType);
  return add_operation(self, "one_hot", {indices}, name, [=](const Tensors& inputs) {
    const int64_t position = wrap_axis(static_cast<int64_t>(axis), inputs[0].dim() + 1);
    Sizes along(inputs[0].dim() + 1, 1);
    along[position] = static_cast<int64_t>(depth);
    const auto classes = at::arange(along[position], inputs[0].options().dtype(at::kLong)).view(along);
    // An index that is none of the classes gives the off value everywhere.
    const auto on = at::eq(inputs[0].to(at::kLong).unsqueeze(position), classes);
    return at::full(on.sizes(), offValue, on.options().dtype(type)).masked_fill(on, onValue);
  });
}

// Apple documents 32-bit indices, but callers give the results 64 bits and read
// the right numbers, so that is simulated.
- (MPSGraphTensor*)nonZeroIndicesOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_shaped_operation(
      self, "non_zero_indices", {tensor}, at::kLong, std::nullopt, name, [](const Tensors& inputs) {
        return at::nonzero(inputs[0]);
      });
}

@end
