// Resizing of images, nearest and bilinear, and the gradients. Along each axis a
// pixel of the result is a mixture of at most two pixels of the source; a
// gradient goes back to them with the same weights.
//
// Sampling of images at the points of a grid. A point [x, y] is turned into
// pixels, the four (or the one) pixels around it are fetched with the padding
// that applies to each, and mixed.
#include "graph/elementwise.h"
#include "graph/operation.h"
#include "graph/windows.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace mps_simulator::graph {
namespace {

// Of a coordinate to the nearest pixel.
at::Tensor rounded(const at::Tensor& coordinate, MPSGraphResizeNearestRoundingMode mode, const char* call) {
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

// How a coordinate of the result turns into one of the source.
struct Resize {
  const char* call = nullptr;
  bool channels_last = false;
  bool bilinear = false;
  MPSGraphResizeNearestRoundingMode rounding = MPSGraphResizeNearestRoundingModeRoundPreferCeil;
  bool center = false;
  bool align_corners = false;

  // Of the height and of the width.
  std::array<int64_t, 2> axes(int64_t rank) const {
    const int64_t height = channels_last ? -3 : -2;
    return {wrap_axis(height, rank), wrap_axis(height + 1, rank)};
  }
};

// result = source · scale + offset, where the caller gives them.
struct ScaleAndOffset {
  at::Tensor scale;
  at::Tensor offset;
};

at::Tensor source_coordinates(int64_t source,
                              int64_t result,
                              const Resize& resize,
                              const std::optional<ScaleAndOffset>& given) {
  const auto place = at::arange(result, at::kFloat);
  if (given) {
    return (place - given->offset) / given->scale;
  }
  // The division comes last, so that the result is exact where the coordinate is a pixel.
  if (resize.align_corners) {
    return result > 1 ? place * static_cast<double>(source - 1) / static_cast<double>(result - 1)
                      : at::zeros_like(place);
  }
  const auto ratio_of = [&](const at::Tensor& shifted) {
    return shifted * static_cast<double>(source) / static_cast<double>(result);
  };
  return resize.center ? ratio_of(place + 0.5) - 0.5 : ratio_of(place);
}

// Which pixels of the source make up each pixel of the result along one axis.
struct Mixture {
  at::Tensor low;
  at::Tensor high; // undefined: the pixel is `low` alone
  at::Tensor weight_of_high;

  Mixture(int64_t source, int64_t result, const Resize& resize, const std::optional<ScaleAndOffset>& given) {
    const auto coordinates = source_coordinates(source, result, resize, given);
    const auto last = static_cast<double>(source - 1);
    if (!resize.bilinear) {
      low = rounded(coordinates, resize.rounding, resize.call).clamp(0, last).to(at::kLong);
      return;
    }
    const auto inside = coordinates.clamp(0, last);
    low = inside.floor().to(at::kLong);
    high = (low + 1).clamp_max(source - 1);
    weight_of_high = inside - low;
  }

  at::Tensor weight(const at::Tensor& image, int64_t axis) const {
    at::DimVector sizes(image.dim(), 1);
    sizes[axis] = weight_of_high.numel();
    return weight_of_high.reshape(sizes);
  }

  at::Tensor apply(const at::Tensor& image, int64_t axis) const {
    const auto lower = image.index_select(axis, low);
    if (!high.defined()) {
      return lower;
    }
    const auto share = weight(image, axis);
    return lower * (1 - share) + image.index_select(axis, high) * share;
  }
};

std::optional<ScaleAndOffset> given_for(const at::Tensor& scale_offset, int64_t axis) {
  if (!scale_offset.defined()) {
    return std::nullopt;
  }
  const auto values = scale_offset.to(at::kFloat).flatten();
  return ScaleAndOffset{values[axis], values[2 + axis]};
}

// Of the rows and of the columns.
using Mixtures = std::array<Mixture, 2>;

Mixtures mixtures_of(at::IntArrayRef source,
                     at::IntArrayRef result,
                     const Resize& resize,
                     const at::Tensor& scale_offset) {
  return {Mixture(source[0], result[0], resize, given_for(scale_offset, 0)),
          Mixture(source[1], result[1], resize, given_for(scale_offset, 1))};
}

// The pixels of the source that a pixel of the result is made of, as places in
// the flattened image, with their weights: [height, width] each.
struct Contribution {
  at::Tensor place;
  at::Tensor weight; // undefined: one
};

std::vector<Contribution> contributions(const Mixtures& mixtures, int64_t source_width) {
  const auto& [rows, columns] = mixtures;
  const auto place = [&](const at::Tensor& row, const at::Tensor& column) {
    return row.unsqueeze(1) * source_width + column.unsqueeze(0);
  };
  if (!rows.high.defined()) {
    return {{place(rows.low, columns.low), {}}};
  }
  const auto down = rows.weight_of_high.unsqueeze(1);
  const auto right = columns.weight_of_high.unsqueeze(0);
  return {{place(rows.low, columns.low), (1 - down) * (1 - right)},
          {place(rows.low, columns.high), (1 - down) * right},
          {place(rows.high, columns.low), down * (1 - right)},
          {place(rows.high, columns.high), down * right}};
}

void check_bilinear_type(const at::Tensor& image, const Resize& resize) {
  if (resize.bilinear && !image.is_floating_point() && image.scalar_type() != at::kByte) {
    unsupported("%s with images of type %s", resize.call, c10::toString(image.scalar_type()));
  }
}

// Bytes are mixed as floating-point numbers; what a mixture has behind the point
// is cut off when it becomes a byte again.
at::Tensor mixable(const at::Tensor& image) {
  return image.scalar_type() == at::kByte ? image.to(at::kFloat) : widen(image);
}

at::Tensor resized(const at::Tensor& image,
                   at::IntArrayRef size,
                   const at::Tensor& scale_offset,
                   const Resize& resize) {
  if (size.size() != 2) {
    violation("%s: the size has %zu elements; it is [height, width]", resize.call, size.size());
  }
  check_bilinear_type(image, resize);
  const auto [height, width] = resize.axes(image.dim());
  const auto [rows, columns] = mixtures_of({image.size(height), image.size(width)}, size, resize, scale_offset);
  const auto wide = resize.bilinear ? mixable(image) : image;
  return columns.apply(rows.apply(wide, height), width).to(image.scalar_type());
}

at::Tensor resized_gradient(const at::Tensor& gradient,
                            at::IntArrayRef input_sizes,
                            const at::Tensor& scale_offset,
                            const Resize& resize) {
  if (is_sample(gradient)) {
    return at::empty(input_sizes, gradient.options());
  }
  check_bilinear_type(gradient, resize);
  const auto [height, width] = resize.axes(gradient.dim());
  const int64_t source[] = {input_sizes[height], input_sizes[width]};
  const auto mixtures = mixtures_of(source, {gradient.size(height), gradient.size(width)}, resize, scale_offset);
  // Images in front, and for each image one sum after the other in the order of
  // the result's pixels: the rounding errors of long sums depend on the order.
  const auto images = mixable(gradient).movedim({height, width}, {-2, -1});
  const auto count = images.numel() / std::max<int64_t>(images.size(-2) * images.size(-1), 1);
  std::vector<at::Tensor> places, values;
  for (const auto& part : contributions(mixtures, source[1])) {
    places.push_back(part.place);
    values.push_back((part.weight.defined() ? images * part.weight : images).reshape({count, -1}));
  }
  const auto area = source[0] * source[1];
  const auto place = at::stack(places, -1).reshape({1, -1});
  const auto start = at::arange(count, place.options()).unsqueeze(1) * area;
  auto sums = at::zeros({count * area}, images.options());
  sums.index_add_(0, (place + start).flatten(), at::stack(values, -1).flatten());
  auto sizes = images.sizes().vec();
  std::copy(std::begin(source), std::end(source), sizes.end() - 2);
  return sums.reshape(sizes).movedim({-2, -1}, {height, width}).to(gradient.scalar_type());
}

// The scale and offset are optional.
std::vector<MPSGraphTensor*> operands_of(MPSGraphTensor* first, MPSGraphTensor* second, MPSGraphTensor* scale_offset) {
  return scale_offset ? std::vector{first, second, scale_offset} : std::vector{first, second};
}

at::Tensor scale_offset_of(const Tensors& inputs) {
  return inputs.size() > 2 ? inputs[2] : at::Tensor();
}

MPSGraphTensor* add_resize(MPSGraph* graph,
                           MPSGraphTensor* tensor,
                           MPSGraphTensor* size,
                           MPSGraphTensor* scale_offset,
                           const Resize& resize,
                           NSString* name) {
  return add_dynamic_operation(
      graph, "resize", operands_of(tensor, size, scale_offset), tensor.dataType, name, [=](const Tensors& inputs) {
        return resized(inputs[0], values_of(inputs[1]), scale_offset_of(inputs), resize);
      });
}

MPSGraphTensor* add_resize_gradient(MPSGraph* graph,
                                    MPSGraphTensor* gradient,
                                    MPSGraphTensor* input,
                                    MPSGraphTensor* scale_offset,
                                    const Resize& resize,
                                    NSString* name) {
  return add_operation(
      graph, "resize gradient", operands_of(gradient, input, scale_offset), name, [=](const Tensors& inputs) {
        return resized_gradient(inputs[0], inputs[1].sizes(), scale_offset_of(inputs), resize);
      });
}

Resize nearest(MPSGraphResizeNearestRoundingMode rounding,
               MPSGraphTensorNamedDataLayout layout,
               const char* call,
               bool center = false,
               bool align_corners = false) {
  return {call, has_channels_last(layout, call), /*bilinear=*/false, rounding, center, align_corners};
}

Resize bilinear(MPSGraphTensorNamedDataLayout layout,
                const char* call,
                bool center = false,
                bool align_corners = false) {
  auto resize = nearest(MPSGraphResizeNearestRoundingModeRoundPreferCeil, layout, call, center, align_corners);
  resize.bilinear = true;
  return resize;
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

// Forward and backward; `first` and `second` go on with the selector.
#define RESIZE_METHODS(first, second, add)                                                                          \
  -(MPSGraphTensor*)resizeNearestWith##first : (MPSGraphTensor*)tensor                                              \
      second : (MPSGraphTensor*)other                                                                               \
      nearestRoundingMode : (MPSGraphResizeNearestRoundingMode)mode                                                 \
      centerResult : (BOOL)center                                                                                   \
      alignCorners : (BOOL)align                                                                                    \
      layout : (MPSGraphTensorNamedDataLayout)layout                                                                \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add(self, tensor, other, nil, nearest(mode, layout, __func__, center, align), name);                     \
  }                                                                                                                 \
  -(MPSGraphTensor*)resizeNearestWith##first : (MPSGraphTensor*)tensor                                              \
      second : (MPSGraphTensor*)other                                                                               \
      scaleOffsetTensor : (MPSGraphTensor*)scaleOffset                                                              \
      nearestRoundingMode : (MPSGraphResizeNearestRoundingMode)mode                                                 \
      layout : (MPSGraphTensorNamedDataLayout)layout                                                                \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add(self, tensor, other, scaleOffset, nearest(mode, layout, __func__), name);                            \
  }                                                                                                                 \
  -(MPSGraphTensor*)resizeBilinearWith##first : (MPSGraphTensor*)tensor                                             \
      second : (MPSGraphTensor*)other                                                                               \
      centerResult : (BOOL)center                                                                                   \
      alignCorners : (BOOL)align                                                                                    \
      layout : (MPSGraphTensorNamedDataLayout)layout                                                                \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add(self, tensor, other, nil, bilinear(layout, __func__, center, align), name);                          \
  }                                                                                                                 \
  -(MPSGraphTensor*)resizeBilinearWith##first : (MPSGraphTensor*)tensor                                             \
      second : (MPSGraphTensor*)other                                                                               \
      scaleOffsetTensor : (MPSGraphTensor*)scaleOffset                                                              \
      layout : (MPSGraphTensorNamedDataLayout)layout                                                                \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add(self, tensor, other, scaleOffset, bilinear(layout, __func__), name);                                 \
  }

@implementation MPSGraph (MPSGraphResizeOps)

RESIZE_METHODS(Tensor, sizeTensor, add_resize)
RESIZE_METHODS(GradientTensor, input, add_resize_gradient)

@end

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
