#include "graph/windows.h"

#include "support/error.h"

#include <algorithm>

namespace mps_simulator::graph {

WindowPadding WindowGeometry::padding(size_t dimension, int64_t extent, int64_t kernel, const char* call) const {
  // As much as it takes for one window per stride.
  const auto total = [&] {
    const auto outputs = (extent + stride[dimension] - 1) / stride[dimension];
    return std::max<int64_t>((outputs - 1) * stride[dimension] + reach(dimension, kernel) - extent, 0);
  };
  switch (padding_style) {
    case MPSGraphPaddingStyleExplicit:
      return {padding_before[dimension], padding_after[dimension]};
    case MPSGraphPaddingStyleTF_VALID:
      return {0, 0};
    // They differ in the side of an odd pixel.
    case MPSGraphPaddingStyleTF_SAME:
      return {total() / 2, total() - total() / 2};
    case MPSGraphPaddingStyleONNX_SAME_LOWER:
      return {total() - total() / 2, total() / 2};
    default:
      unsupported("%s with padding style %lu", call, (unsigned long)padding_style);
  }
}

bool has_channels_last(MPSGraphTensorNamedDataLayout layout, const char* call) {
  switch (layout) {
    case MPSGraphTensorNamedDataLayoutNCHW:
    case MPSGraphTensorNamedDataLayoutCHW:
    case MPSGraphTensorNamedDataLayoutHW:
      return false;
    case MPSGraphTensorNamedDataLayoutNHWC:
    case MPSGraphTensorNamedDataLayoutHWC:
      return true;
    default:
      unsupported("%s with data layout %lu", call, (unsigned long)layout);
  }
}

} // namespace mps_simulator::graph
