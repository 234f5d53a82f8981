// Placeholders and constants.
#include "graph/graph_state.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

MPSGraphTensor* add_constant(MPSGraph* graph, const at::Tensor& value, NSString* name) {
  TensorType type{true, value.sizes().vec(), value.scalar_type()};
  MPSGraphOperation* operation = append_operation(
      graph, "constant", {}, {std::move(type)}, [value](const Tensors&) { return Tensors{value}; }, name);
  operation->_outputs[0]->_value = value;
  return operation->_outputs[0];
}

at::Tensor scalar_value(double scalar, MPSDataType type) {
  const at::ScalarType element = to_scalar_type(type);
  // Large integers keep all their bits on the way; what is too large for a
  // narrow type is infinite there (attention masks with -1e20 in half precision).
  const at::Tensor wide = c10::isIntegralType(element, /*includeBool=*/false)
      ? at::scalar_tensor(static_cast<int64_t>(scalar), at::kLong)
      : at::scalar_tensor(scalar, at::kDouble);
  return wide.to(element);
}

} // namespace

@implementation MPSGraph (MemoryOperations)

- (MPSGraphTensor*)placeholderWithShape:(MPSShape*)shape dataType:(MPSDataType)dataType name:(NSString*)name {
  COUNT_CALL();
  TensorType type;
  type.type = to_scalar_type(dataType);
  if (shape) {
    type.ranked = true;
    type.sizes = to_sizes(shape);
  }
  MPSGraphOperation* operation = append_operation(self, "placeholder", {}, {std::move(type)}, nullptr, name);
  _placeholders.push_back(operation->_outputs[0]);
  return operation->_outputs[0];
}

- (MPSGraphTensor*)constantWithScalar:(double)scalar dataType:(MPSDataType)dataType {
  COUNT_CALL();
  return add_constant(self, scalar_value(scalar, dataType), nil);
}

- (MPSGraphTensor*)constantWithScalar:(double)scalar shape:(MPSShape*)shape dataType:(MPSDataType)dataType {
  COUNT_CALL();
  return add_constant(self, scalar_value(scalar, dataType).expand(to_sizes(shape)), nil);
}

- (MPSGraphTensor*)constantWithData:(NSData*)data shape:(MPSShape*)shape dataType:(MPSDataType)dataType {
  COUNT_CALL();
  const at::Tensor value =
      at::empty(to_sizes(shape), at::TensorOptions().device(at::kCPU).dtype(to_scalar_type(dataType)));
  VALIDATE(data.length == value.nbytes(),
           "the shape %s needs %zu bytes, but the data has %zu",
           describe(value.sizes()).c_str(),
           value.nbytes(),
           static_cast<size_t>(data.length));
  memcpy(value.mutable_data_ptr(), data.bytes, std::min<size_t>(data.length, value.nbytes()));
  return add_constant(self, value, nil);
}

@end
