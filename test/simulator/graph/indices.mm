// Operations between elements and their indices.
#include "graph/operation.h"
#include "support/counters.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

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
