// Resizing of images, nearest and bilinear, and the gradients. Along each axis a
// pixel of the result is a mixture of at most two pixels of the source; a
// gradient goes back to them with the same weights.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "graph/rounding.h"
#include "graph/windows.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace mps_simulator::graph {
namespace {

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

@implementation MPSGraph (MPSGraphResizeOps)

- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                              centerResult:(BOOL)centerResult
                              alignCorners:(BOOL)alignCorners
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString*)name {
  COUNT_CALL();
  const auto resize = nearest(nearestRoundingMode, layout, __func__, centerResult, alignCorners);
  return add_resize(self, tensor, sizeTensor, nil, resize, name);
}

- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                         scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString*)name {
  COUNT_CALL();
  const auto resize = nearest(nearestRoundingMode, layout, __func__);
  return add_resize(self, tensor, sizeTensor, scaleOffsetTensor, resize, name);
}

- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                               centerResult:(BOOL)centerResult
                               alignCorners:(BOOL)alignCorners
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString*)name {
  COUNT_CALL();
  const auto resize = bilinear(layout, __func__, centerResult, alignCorners);
  return add_resize(self, tensor, sizeTensor, nil, resize, name);
}

- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                          scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString*)name {
  COUNT_CALL();
  return add_resize(self, tensor, sizeTensor, scaleOffsetTensor, bilinear(layout, __func__), name);
}

- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                      centerResult:(BOOL)centerResult
                                      alignCorners:(BOOL)alignCorners
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString*)name {
  COUNT_CALL();
  const auto resize = nearest(nearestRoundingMode, layout, __func__, centerResult, alignCorners);
  return add_resize_gradient(self, gradient, input, nil, resize, name);
}

- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                                 scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString*)name {
  COUNT_CALL();
  const auto resize = nearest(nearestRoundingMode, layout, __func__);
  return add_resize_gradient(self, gradient, input, scaleOffsetTensor, resize, name);
}

- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                       centerResult:(BOOL)centerResult
                                       alignCorners:(BOOL)alignCorners
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString*)name {
  COUNT_CALL();
  const auto resize = bilinear(layout, __func__, centerResult, alignCorners);
  return add_resize_gradient(self, gradient, input, nil, resize, name);
}

- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                  scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString*)name {
  COUNT_CALL();
  return add_resize_gradient(self, gradient, input, scaleOffsetTensor, bilinear(layout, __func__), name);
}

@end
