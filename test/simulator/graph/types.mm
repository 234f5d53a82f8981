#include "foundation/copying.h"
#include "graph/inference.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <utility>

namespace mps_simulator::graph {

namespace {

constexpr std::pair<MPSDataType, at::ScalarType> kTypes[] = {
    {MPSDataTypeFloat32, at::kFloat},
    {MPSDataTypeFloat16, at::kHalf},
    {MPSDataTypeBFloat16, at::kBFloat16},
    {MPSDataTypeComplexFloat32, at::kComplexFloat},
    {MPSDataTypeComplexFloat16, at::kComplexHalf},
    {MPSDataTypeInt8, at::kChar},
    {MPSDataTypeInt16, at::kShort},
    {MPSDataTypeInt32, at::kInt},
    {MPSDataTypeInt64, at::kLong},
    {MPSDataTypeUInt8, at::kByte},
    {MPSDataTypeUInt16, at::kUInt16},
    {MPSDataTypeUInt32, at::kUInt32},
    {MPSDataTypeUInt64, at::kUInt64},
    {MPSDataTypeBool, at::kBool},
};

} // namespace

at::ScalarType to_scalar_type(MPSDataType type) {
  for (const auto& [data_type, scalar_type] : kTypes) {
    if (data_type == type) {
      return scalar_type;
    }
  }
  unsupported("MPSDataType 0x%x", static_cast<unsigned>(type));
}

MPSDataType to_data_type(at::ScalarType type) {
  for (const auto& [data_type, scalar_type] : kTypes) {
    if (scalar_type == type) {
      return data_type;
    }
  }
  unsupported("the element type %s in MPSGraph", c10::toString(type));
}

Sizes to_sizes(NSArray<NSNumber*>* shape) {
  Sizes sizes;
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

Sizes wrap_axes(const Sizes& axes, int64_t rank) {
  Sizes result;
  for (const int64_t axis : axes) {
    result.push_back(wrap_axis(axis, rank));
  }
  return result;
}

Sizes values_of(const at::Tensor& tensor) {
  note_reading(tensor);
  const at::Tensor numbers = tensor.to(at::kLong).contiguous();
  const int64_t* begin = numbers.const_data_ptr<int64_t>();
  return {begin, begin + numbers.numel()};
}

} // namespace mps_simulator::graph

using namespace mps_simulator;

@implementation MPSGraphType

COPIES_PROPERTIES

@end

@implementation MPSGraphShapedType

- (instancetype)initWithShape:(MPSShape*)shape dataType:(MPSDataType)dataType {
  COUNT_CALL();
  if ((self = [super init])) {
    _shape = [shape copy];
    _dataType = dataType;
  }
  return self;
}

- (void)dealloc {
  [_shape release];
  [super dealloc];
}

- (BOOL)isEqual:(id)object {
  MPSGraphShapedType* other = [object isKindOfClass:[MPSGraphShapedType class]] ? object : nil;
  return other && other.dataType == _dataType && (other.shape == _shape || [other.shape isEqual:_shape]);
}

- (NSUInteger)hash {
  return _dataType ^ [_shape hash];
}

@end

@implementation MPSGraphDevice

// There is only one.
+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)metalDevice {
  COUNT_CALL();
  return [[[self alloc] init] autorelease];
}

@end
