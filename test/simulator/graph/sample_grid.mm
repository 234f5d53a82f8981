// Sampling of images at the points of a grid. A point [x, y] is turned into
// pixels, the four (or the one) pixels around it are fetched with the padding
// that applies to each, and mixed.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "graph/rounding.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

namespace mps_simulator::graph {
namespace {

struct Sampling {
  const char* call = nullptr;
  bool channels_last = false;
  bool normalized = false;
  bool align_corners = false;
  bool bilinear = false;
  MPSGraphPaddingMode padding = MPSGraphPaddingModeZero;
  MPSGraphResizeNearestRoundingMode rounding = MPSGraphResizeNearestRoundingModeRoundPreferCeil;
  double constant = 0;
};

at::Tensor pixels(const at::Tensor& coordinate, int64_t extent, const Sampling& sampling) {
  if (!sampling.normalized) {
    return coordinate;
  }
  const auto size = static_cast<double>(extent);
  return sampling.align_corners ? (coordinate + 1) * ((size - 1) / 2) : ((coordinate + 1) * size - 1) / 2;
}

// A pixel index that may lie outside, folded back into the image, and whether
// it names a pixel at all.
struct Pixel {
  at::Tensor index;
  at::Tensor valid; // undefined: always
};

Pixel folded(const at::Tensor& place, int64_t extent, const Sampling& sampling) {
  const auto last = extent - 1;
  // NaN and values out of all range must not reach the conversion.
  const auto finite = at::nan_to_num(place, -1, 1e9, -1e9).clamp(-1e9, 1e9).to(at::kLong);
  switch (sampling.padding) {
    case MPSGraphPaddingModeZero:
    case MPSGraphPaddingModeConstant:
      return {finite.clamp(0, last), finite.ge(0).logical_and(finite.le(last))};
    case MPSGraphPaddingModeClampToEdge:
      return {finite.clamp(0, last), {}};
    case MPSGraphPaddingModeReflect: {
      if (last == 0) {
        return {at::zeros_like(finite), {}};
      }
      const auto folded_once = at::remainder(finite, 2 * last);
      return {at::minimum(folded_once, 2 * last - folded_once), {}};
    }
    case MPSGraphPaddingModeSymmetric: {
      const auto folded_once = at::remainder(finite, 2 * extent);
      return {at::minimum(folded_once, 2 * extent - 1 - folded_once), {}};
    }
    default:
      unsupported("%s with padding mode %ld", sampling.call, (long)sampling.padding);
  }
}

// image [N, C, H, W], places [N, h, w]; gives [N, C, h, w].
at::Tensor fetch(const at::Tensor& image, const at::Tensor& y, const at::Tensor& x, const Sampling& sampling) {
  const auto row = folded(y, image.size(2), sampling);
  const auto column = folded(x, image.size(3), sampling);
  const auto place = (row.index * image.size(3) + column.index).flatten(1).unsqueeze(1);
  auto values = image.flatten(2)
                    .gather(2, place.expand({image.size(0), image.size(1), place.size(2)}))
                    .reshape({image.size(0), image.size(1), y.size(1), y.size(2)});
  if (row.valid.defined()) {
    const double outside = sampling.padding == MPSGraphPaddingModeZero ? 0 : sampling.constant;
    values =
        at::where(row.valid.logical_and(column.valid).unsqueeze(1), values, at::full({}, outside, values.options()));
  }
  return values;
}

at::Tensor sampled(const at::Tensor& source, const at::Tensor& grid, const Sampling& sampling) {
  if (source.dim() != 4 || grid.dim() != 4 || grid.size(3) != 2 || source.size(0) != grid.size(0)) {
    violation("%s: the source has rank 4 and the coordinates are [N, height, width, 2]", sampling.call);
  }
  if (!source.is_floating_point() || !grid.is_floating_point()) {
    unsupported("%s with images of type %s", sampling.call, c10::toString(source.scalar_type()));
  }
  if (is_sample(source)) {
    const auto channels = sampling.channels_last ? source.size(3) : source.size(1);
    const auto result = at::empty({source.size(0), channels, grid.size(1), grid.size(2)}, source.options());
    return sampling.channels_last ? result.movedim(1, 3) : result;
  }
  const auto image = widen(sampling.channels_last ? source.movedim(3, 1) : source).contiguous();
  const auto points = widen(grid);
  const auto x = pixels(points.select(3, 0), image.size(3), sampling);
  const auto y = pixels(points.select(3, 1), image.size(2), sampling);
  at::Tensor result;
  if (sampling.bilinear) {
    const auto left = x.floor();
    const auto top = y.floor();
    const auto right_share = (x - left).unsqueeze(1);
    const auto bottom_share = (y - top).unsqueeze(1);
    result = fetch(image, top, left, sampling) * (1 - bottom_share) * (1 - right_share) +
        fetch(image, top, left + 1, sampling) * (1 - bottom_share) * right_share +
        fetch(image, top + 1, left, sampling) * bottom_share * (1 - right_share) +
        fetch(image, top + 1, left + 1, sampling) * bottom_share * right_share;
  } else {
    result = fetch(
        image, rounded(y, sampling.rounding, sampling.call), rounded(x, sampling.rounding, sampling.call), sampling);
  }
  result = result.to(source.scalar_type());
  return sampling.channels_last ? result.movedim(1, 3) : result;
}

Sampling sampling_of(MPSGraphTensorNamedDataLayout layout,
                     bool normalized,
                     bool relative,
                     bool align_corners,
                     MPSGraphPaddingMode padding,
                     double constant,
                     const char* call) {
  if (relative) {
    unsupported("%s with relative coordinates", call);
  }
  if (layout != MPSGraphTensorNamedDataLayoutNCHW && layout != MPSGraphTensorNamedDataLayoutNHWC) {
    unsupported("%s with layout %lu", call, (unsigned long)layout);
  }
  Sampling sampling;
  sampling.call = call;
  sampling.channels_last = layout == MPSGraphTensorNamedDataLayoutNHWC;
  sampling.normalized = normalized;
  sampling.align_corners = align_corners;
  sampling.padding = padding;
  sampling.constant = constant;
  return sampling;
}

MPSGraphTensor* add_sampling(MPSGraph* graph,
                             MPSGraphTensor* source,
                             MPSGraphTensor* coordinates,
                             const Sampling& sampling,
                             NSString* name) {
  return add_operation(graph, "sample grid", {source, coordinates}, name, [=](const Tensors& inputs) {
    return sampled(inputs[0], inputs[1], sampling);
  });
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphSampleGridOps)

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                                 samplingMode:(MPSGraphResizeMode)samplingMode
                                constantValue:(double)constantValue
                                         name:(NSString*)name {
  COUNT_CALL();
  auto sampling = sampling_of(
      layout, normalizeCoordinates, relativeCoordinates, alignCorners, paddingMode, constantValue, __func__);
  sampling.bilinear = samplingMode == MPSGraphResizeBilinear;
  return add_sampling(self, source, coordinateTensor, sampling, name);
}

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                          nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                constantValue:(double)constantValue
                                         name:(NSString*)name {
  COUNT_CALL();
  auto sampling = sampling_of(
      layout, normalizeCoordinates, relativeCoordinates, alignCorners, paddingMode, constantValue, __func__);
  sampling.rounding = nearestRoundingMode;
  return add_sampling(self, source, coordinateTensor, sampling, name);
}

@end
