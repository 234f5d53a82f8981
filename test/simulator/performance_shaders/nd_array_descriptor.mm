#include "performance_shaders/nd_array.h"

#include "foundation/copying.h"
#include "support/counters.h"
#include "support/error.h"

#include <algorithm>

using namespace mps_simulator;

@interface MPSNDArrayDescriptor () {
 @public
  DimensionPlan _plan;
}
@end

@implementation MPSNDArrayDescriptor

+ (instancetype)descriptorWithDataType:(MPSDataType)dataType shape:(MPSShape*)shape {
  COUNT_CALL();
  VALIDATE(shape != nil, "the shape is nil");
  MPSNDArrayDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor->_dataType = dataType;
  [descriptor setLengths:[self lengthsOfShape:shape function:__func__] function:__func__];
  return descriptor;
}

+ (std::vector<NSUInteger>)lengthsOfShape:(MPSShape*)shape function:(const char*)function {
  std::vector<NSUInteger> lengths;
  for (const int64_t length : to_integers(shape)) {
    if (length < 0) {
      violation("%s: the shape has a negative length %ld", function, length);
    }
    lengths.insert(lengths.begin(), length);
  }
  return lengths;
}

- (void)setLengths:(const std::vector<NSUInteger>&)lengths function:(const char*)function {
  if (lengths.size() > kMaximumDimensions) {
    violation("%s: %zu dimensions, at most %lu are allowed", function, lengths.size(), kMaximumDimensions);
  }
  _plan.dimensions.clear();
  for (size_t i = 0; i < lengths.size(); ++i) {
    _plan.dimensions.push_back({lengths[i], {0, lengths[i]}, i});
  }
}

- (DimensionPlan::Dimension&)dimension:(NSUInteger)index function:(const char*)function {
  if (index >= _plan.dimensions.size()) {
    violation("%s: dimension %lu of %zu", function, index, _plan.dimensions.size());
  }
  return _plan.dimensions[index];
}

- (id)copyWithZone:(NSZone*)zone {
  MPSNDArrayDescriptor* copy = copy_with_properties(self);
  copy->_plan = _plan;
  return copy;
}

- (NSUInteger)numberOfDimensions {
  COUNT_CALL();
  return _plan.dimensions.size();
}

- (void)setNumberOfDimensions:(NSUInteger)count {
  COUNT_CALL();
  std::vector<NSUInteger> lengths;
  for (const auto& dimension : _plan.dimensions) {
    lengths.push_back(dimension.length);
  }
  lengths.resize(count, 1);
  _plan.reshaped = true;
  [self setLengths:lengths function:__func__];
}

- (NSUInteger)lengthOfDimension:(NSUInteger)dimensionIndex {
  COUNT_CALL();
  // Those that the array does not have are 1 long.
  return dimensionIndex < _plan.dimensions.size() ? _plan.dimensions[dimensionIndex].length : 1;
}

- (MPSDimensionSlice)sliceRangeForDimension:(NSUInteger)dimensionIndex {
  COUNT_CALL();
  return [self dimension:dimensionIndex function:__func__].slice;
}

- (void)sliceDimension:(NSUInteger)dimensionIndex withSubrange:(MPSDimensionSlice)subRange {
  COUNT_CALL();
  auto& dimension = [self dimension:dimensionIndex function:__func__];
  VALIDATE(subRange.start <= dimension.length && subRange.length <= dimension.length - subRange.start,
           "the slice {%lu, %lu} is beyond the length %lu",
           subRange.start,
           subRange.length,
           dimension.length);
  dimension.slice = subRange;
}

- (void)transposeDimension:(NSUInteger)dimensionIndex withDimension:(NSUInteger)dimensionIndex2 {
  COUNT_CALL();
  std::swap([self dimension:dimensionIndex function:__func__], [self dimension:dimensionIndex2 function:__func__]);
}

- (void)permuteWithDimensionOrder:(NSUInteger*)dimensionOrder {
  COUNT_CALL();
  const auto before = _plan.dimensions;
  std::vector<bool> seen(before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    VALIDATE(dimensionOrder[i] < before.size() && !seen[dimensionOrder[i]], "the order is no permutation");
    seen[dimensionOrder[i]] = true;
    _plan.dimensions[i] = before[dimensionOrder[i]];
  }
}

- (vector_uchar16)dimensionOrder {
  COUNT_CALL();
  vector_uchar16 order;
  for (size_t i = 0; i < kMaximumDimensions; ++i) {
    order[i] = i < _plan.dimensions.size() ? _plan.dimensions[i].source : i;
  }
  return order;
}

- (MPSShape*)getShape {
  COUNT_CALL();
  std::vector<int64_t> shape;
  for (const auto& dimension : _plan.dimensions) {
    shape.insert(shape.begin(), dimension.slice.length);
  }
  return to_numbers(shape);
}

- (NSString*)description {
  return [NSString stringWithFormat:@"<MPSNDArrayDescriptor: type 0x%x, shape %@>",
                                    static_cast<unsigned>(_dataType),
                                    [[self getShape] componentsJoinedByString:@"x"]];
}

@end

namespace mps_simulator {

const DimensionPlan& plan_of(MPSNDArrayDescriptor* descriptor) {
  return descriptor->_plan;
}

std::vector<int64_t> to_integers(NSArray<NSNumber*>* shape) {
  std::vector<int64_t> values;
  values.reserve(shape.count);
  for (NSNumber* value in shape) {
    values.push_back(value.longLongValue);
  }
  return values;
}

NSArray<NSNumber*>* to_numbers(const std::vector<int64_t>& values) {
  NSMutableArray<NSNumber*>* numbers = [NSMutableArray arrayWithCapacity:values.size()];
  for (const int64_t value : values) {
    [numbers addObject:@(value)];
  }
  return numbers;
}

} // namespace mps_simulator
