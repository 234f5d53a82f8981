// Rounding of a coordinate to the nearest pixel, as the resize and sample-grid
// operations offer it.
#pragma once

#include "support/error.h"

#include <ATen/ATen.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

namespace mps_simulator::graph {

inline at::Tensor rounded(const at::Tensor& coordinate, MPSGraphResizeNearestRoundingMode mode, const char* call) {
  switch (mode) {
    case MPSGraphResizeNearestRoundingModeRoundPreferCeil:
      return (coordinate + 0.5).floor();
    case MPSGraphResizeNearestRoundingModeRoundPreferFloor:
      return (coordinate - 0.5).ceil();
    case MPSGraphResizeNearestRoundingModeCeil:
      return coordinate.ceil();
    case MPSGraphResizeNearestRoundingModeFloor:
      return coordinate.floor();
    case MPSGraphResizeNearestRoundingModeRoundToEven:
      return coordinate.round();
    case MPSGraphResizeNearestRoundingModeRoundToOdd: {
      const auto below = coordinate.floor();
      const auto odd = below + 1 - at::remainder(below, 2).abs();
      return at::where((coordinate - below).eq(0.5), odd, coordinate.round());
    }
  }
  unsupported("%s with nearest rounding mode %lu", call, (unsigned long)mode);
}

} // namespace mps_simulator::graph
