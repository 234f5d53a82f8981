#include "graph/operation.h"
#include "graph/inference.h"
#include "support/error.h"

namespace mps_simulator::graph {

at::ScalarType to_scalar_type(MPSDataType type) {
  switch (static_cast<uint32_t>(type)) {
    case MPSDataTypeFloat32:
      return at::kFloat;
    case MPSDataTypeFloat16:
      return at::kHalf;
    case MPSDataTypeBFloat16:
      return at::kBFloat16;
    case MPSDataTypeComplexFloat32:
      return at::kComplexFloat;
    case MPSDataTypeComplexFloat16:
      return at::kComplexHalf;
    case MPSDataTypeInt8:
      return at::kChar;
    case MPSDataTypeInt16:
      return at::kShort;
    case MPSDataTypeInt32:
      return at::kInt;
    case MPSDataTypeInt64:
      return at::kLong;
    case MPSDataTypeUInt8:
      return at::kByte;
    case MPSDataTypeUInt16:
      return at::kUInt16;
    case MPSDataTypeUInt32:
      return at::kUInt32;
    case MPSDataTypeUInt64:
      return at::kUInt64;
    case MPSDataTypeBool:
      return at::kBool;
    default:
      unsupported("MPSDataType 0x%x", static_cast<unsigned>(type));
  }
}

MPSDataType to_data_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPSDataTypeFloat32;
    case at::kHalf:
      return MPSDataTypeFloat16;
    case at::kBFloat16:
      return MPSDataTypeBFloat16;
    case at::kComplexFloat:
      return MPSDataTypeComplexFloat32;
    case at::kComplexHalf:
      return MPSDataTypeComplexFloat16;
    case at::kChar:
      return MPSDataTypeInt8;
    case at::kShort:
      return MPSDataTypeInt16;
    case at::kInt:
      return MPSDataTypeInt32;
    case at::kLong:
      return MPSDataTypeInt64;
    case at::kByte:
      return MPSDataTypeUInt8;
    case at::kUInt16:
      return MPSDataTypeUInt16;
    case at::kUInt32:
      return MPSDataTypeUInt32;
    case at::kUInt64:
      return MPSDataTypeUInt64;
    case at::kBool:
      return MPSDataTypeBool;
    default:
      unsupported("the element type %s in MPSGraph", c10::toString(type));
  }
}

std::vector<int64_t> to_sizes(NSArray<NSNumber*>* shape) {
  std::vector<int64_t> sizes;
  sizes.reserve(shape.count);
  for (NSNumber* size in shape) {
    sizes.push_back(size.longLongValue);
  }
  return sizes;
}

NSArray<NSNumber*>* to_shape(at::IntArrayRef sizes) {
  std::vector<NSNumber*> numbers;
  numbers.reserve(sizes.size());
  for (const int64_t size : sizes) {
    numbers.push_back([NSNumber numberWithLongLong:size]);
  }
  return [NSArray arrayWithObjects:numbers.data() count:numbers.size()];
}

int64_t wrap_axis(int64_t axis, int64_t rank) {
  // A single number has no axis, yet MPSGraph takes it as a vector of one.
  const int64_t limit = rank > 0 ? rank : 1;
  if (axis < -limit || axis >= limit) {
    violation("-[MPSGraph]: axis %lld does not exist in a tensor of rank %lld",
              static_cast<long long>(axis),
              static_cast<long long>(rank));
  }
  return axis < 0 ? axis + limit : axis;
}

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  note_reading(tensor);
  const at::Tensor numbers = tensor.to(at::kLong).contiguous();
  const int64_t* begin = numbers.const_data_ptr<int64_t>();
  return {begin, begin + numbers.numel()};
}

} // namespace mps_simulator::graph
