#pragma once

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <vector>

namespace mps_simulator {

// Metal allows no more dimensions than these.
constexpr NSUInteger kMaximumDimensions = 16;

// What a descriptor says about the array that it is applied to. Dimension 0 is
// the fastest moving one.
struct DimensionPlan {
  struct Dimension {
    NSUInteger length;
    MPSDimensionSlice slice;
    NSUInteger source; // dimension of the array it came from
  };
  std::vector<Dimension> dimensions;
  // The lengths do not belong to the dimensions of the source any more.
  bool reshaped = false;
};

const DimensionPlan& plan_of(MPSNDArrayDescriptor* descriptor);

std::vector<int64_t> to_integers(NSArray<NSNumber*>* shape);
NSArray<NSNumber*>* to_numbers(const std::vector<int64_t>& values);

} // namespace mps_simulator
