// The same bytes as another element type.
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (ReinterpretingOperations)

- (MPSGraphTensor*)reinterpretCastTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)type name:(NSString*)name {
  COUNT_CALL();
  if (rank_of(tensor) == 0) {
    violation("%s: a scalar has no last dimension, which could become longer or shorter", __func__);
  }
  const at::ScalarType new_type = to_scalar_type(type);
  return add_operation(self, "reinterpret_cast", {tensor}, name, [new_type](const Tensors& inputs) {
    return inputs[0].contiguous().view(new_type);
  });
}

@end
