// Windows over space, as convolutions and poolings have them: where they lie, and
// the padding that their descriptors ask for.
#pragma once

#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <cstdint>
#include <vector>

namespace mps_simulator::graph {

using Sizes = std::vector<int64_t>;

struct WindowPadding {
  int64_t before;
  int64_t after;
};

struct WindowGeometry {
  // Space from the outermost to the innermost dimension: (depth,) height, width.
  Sizes stride;
  Sizes dilation;
  Sizes padding_before;
  Sizes padding_after;
  MPSGraphPaddingStyle padding_style = MPSGraphPaddingStyleExplicit;

  size_t space() const {
    return stride.size();
  }

  // From the first to the last pixel of a window with `kernel` pixels.
  int64_t reach(size_t dimension, int64_t kernel) const {
    return dilation[dimension] * (kernel - 1) + 1;
  }

  WindowPadding padding(size_t dimension, int64_t extent, int64_t kernel, const char* call) const;
};

// Height and width, which all descriptors of windows call by the same names.
template <typename Descriptor>
void read_plane(Descriptor* descriptor, WindowGeometry& geometry) {
  geometry.stride = {(int64_t)descriptor.strideInY, (int64_t)descriptor.strideInX};
  geometry.dilation = {(int64_t)descriptor.dilationRateInY, (int64_t)descriptor.dilationRateInX};
  geometry.padding_before = {(int64_t)descriptor.paddingTop, (int64_t)descriptor.paddingLeft};
  geometry.padding_after = {(int64_t)descriptor.paddingBottom, (int64_t)descriptor.paddingRight};
  geometry.padding_style = descriptor.paddingStyle;
}

template <typename Descriptor>
void read_volume(Descriptor* descriptor, WindowGeometry& geometry) {
  read_plane(descriptor, geometry);
  const auto add_depth = [](Sizes& sizes, NSUInteger value) { sizes.insert(sizes.begin(), (int64_t)value); };
  add_depth(geometry.stride, descriptor.strideInZ);
  add_depth(geometry.dilation, descriptor.dilationRateInZ);
  add_depth(geometry.padding_before, descriptor.paddingFront);
  add_depth(geometry.padding_after, descriptor.paddingBack);
}

// Whether images in this layout have their channels behind height and width.
bool has_channels_last(MPSGraphTensorNamedDataLayout layout, const char* call);

} // namespace mps_simulator::graph
