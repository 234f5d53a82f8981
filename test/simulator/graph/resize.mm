// Resizing of images, nearest and bilinear, and the gradients: along each axis a
// pixel of the result is a mixture of at most two pixels of the source.
// Sampling of images at the points of a grid.
#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <ATen/native/GridSamplerUtils.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

struct Resize {
  bool bilinear = false;
  bool rounds = false; // nearest: to the nearest pixel, not down
  bool center = false;
  bool align_corners = false;

  // result = source · scale + offset, where the caller gives them.
  at::Tensor coordinates(int64_t source, int64_t result, int64_t axis, const at::Tensor& scale_offset) const {
    const auto place = at::arange(result, at::kFloat);
    if (scale_offset.defined()) {
      return (place - scale_offset[2 + axis]) / scale_offset[axis];
    }
    // The division comes last, so that the result is exact where the coordinate is a pixel.
    if (align_corners) {
      const auto last = static_cast<double>(std::max<int64_t>(result - 1, 1));
      return place * static_cast<double>(source - 1) / last;
    }
    const double shift = center ? 0.5 : 0;
    return (place + shift) * static_cast<double>(source) / static_cast<double>(result) - shift;
  }

  // The pixels of the source that make up each pixel of the result along the height (axis 0) or the width, and
  // their shares: [size, 1 or 2].
  std::pair<at::Tensor, at::Tensor> parts(int64_t source, int64_t size, int64_t axis, const at::Tensor& given) const {
    const auto places = coordinates(source, size, axis, given);
    if (!bilinear) {
      const auto nearest = (rounds ? places + 0.5 : places).floor().clamp(0, source - 1).to(at::kLong).unsqueeze(1);
      return {nearest, at::ones({1, 1})};
    }
    const auto inside = places.clamp(0, source - 1);
    const auto low = inside.floor().to(at::kLong);
    const auto share = inside - low;
    return {at::stack({low, (low + 1).clamp_max(source - 1)}, 1), at::stack({1 - share, share}, 1)};
  }

  at::Tensor operator()(const at::Tensor& image, at::IntArrayRef size, const at::Tensor& scale_offset) const {
    TORCH_CHECK(size.size() == 2, "the size has ", size.size(), " elements; it is [height, width]");
    TORCH_CHECK_NOT_IMPLEMENTED(!bilinear || image.is_floating_point() || image.scalar_type() == at::kByte,
                                "bilinear resizing of ",
                                image.scalar_type(),
                                " is not simulated");
    // Bytes are mixed as floating-point numbers; what a mixture has behind the
    // point is cut off when it becomes a byte again.
    const auto wide = bilinear && image.scalar_type() == at::kByte ? image.to(at::kFloat) : widen(image);
    const auto [rows, row_shares] = parts(image.size(-2), size[0], 0, scale_offset);
    const auto [columns, column_shares] = parts(image.size(-1), size[1], 1, scale_offset);
    const auto down = [](const at::Tensor& tensor) { return tensor.unsqueeze(1).unsqueeze(3); };
    const auto shares = (down(row_shares) * column_shares.unsqueeze(1)).flatten(2);
    const auto places = (down(rows) * image.size(-1) + columns.unsqueeze(1)).flatten(2); // [height, width, parts]
    // All images in one list: the gradient is then one sum after the other in the order of the result's pixels, and
    // the rounding errors of long sums depend on the order.
    const auto area = image.size(-2) * image.size(-1);
    const auto starts = at::arange(image.numel() / area, places.options()).unsqueeze(1) * area;
    auto sizes = image.sizes().vec();
    std::copy(size.begin(), size.end(), sizes.end() - 2);
    sizes.push_back(places.size(2));
    const auto values = wide.reshape(-1).index_select(0, (starts + places.flatten()).flatten()).reshape(sizes);
    return (bilinear ? (values * shares).sum(-1) : values.squeeze(-1)).to(image.scalar_type());
  }
};

MPSGraphTensor* add_resize(MPSGraph* graph,
                           MPSGraphTensor* tensor,
                           MPSGraphTensor* size,
                           MPSGraphTensor* scale_offset,
                           const Resize& resize,
                           NSString* name,
                           const char* method) {
  Inputs inputs{tensor, size, scale_offset};
  const SingleExpression expression = [=](const Tensors& inputs) {
    return resize(inputs[0], values_of(inputs[1]), inputs[2]);
  };
  const auto without_gaps = without_nil(inputs, expression);
  return add_shaped_operation(
      graph, "resize", inputs, scalar_type_of(tensor), std::nullopt, name, without_gaps, false, method);
}

MPSGraphTensor* add_resize_gradient(MPSGraph* graph,
                                    MPSGraphTensor* gradient,
                                    MPSGraphTensor* input,
                                    MPSGraphTensor* scale_offset,
                                    const Resize& resize,
                                    NSString* name,
                                    const char* method) {
  Inputs inputs{gradient, input, scale_offset};
  const SingleExpression expression = [=](const Tensors& inputs) {
    const auto wide = widen(inputs[0]);
    const auto apply = [&](const at::Tensor& image) {
      return resize(image, wide.sizes().slice(wide.dim() - 2), inputs[2]);
    };
    const auto like = wide.new_empty({1}).expand(inputs[1].sizes());
    return gradient_of(apply, like, wide).to(inputs[0].scalar_type());
  };
  const auto without_gaps = without_nil(inputs, expression);
  return add_operation(graph, "resize gradient", inputs, name, without_gaps, false, method);
}

void check_layout(MPSGraphTensorNamedDataLayout layout, const char* method) {
  if (layout != MPSGraphTensorNamedDataLayoutNCHW && layout != MPSGraphTensorNamedDataLayoutCHW) {
    unsupported("%s with data layout %lu", method, (unsigned long)layout);
  }
}

Resize nearest(MPSGraphResizeNearestRoundingMode rounding,
               MPSGraphTensorNamedDataLayout layout,
               const char* method,
               bool center = false,
               bool align_corners = false) {
  check_layout(layout, method);
  const bool rounds = rounding == MPSGraphResizeNearestRoundingModeRoundPreferCeil;
  if (!rounds && rounding != MPSGraphResizeNearestRoundingModeFloor) {
    unsupported("%s with nearest rounding mode %lu", method, (unsigned long)rounding);
  }
  return {/*bilinear=*/false, rounds, center, align_corners};
}

Resize bilinear(MPSGraphTensorNamedDataLayout layout,
                const char* method,
                bool center = false,
                bool align_corners = false) {
  check_layout(layout, method);
  return {/*bilinear=*/true, /*rounds=*/false, center, align_corners};
}

MPSGraphTensor* add_sampling(MPSGraph* graph,
                             MPSGraphTensor* source,
                             MPSGraphTensor* coordinates,
                             MPSGraphTensorNamedDataLayout layout,
                             bool normalized,
                             bool relative,
                             bool align_corners,
                             MPSGraphPaddingMode padding,
                             at::native::GridSamplerInterpolation interpolation,
                             NSString* name,
                             const char* method = __builtin_FUNCTION()) {
  using at::native::GridSamplerPadding;
  const bool channels_last = layout == MPSGraphTensorNamedDataLayoutNHWC;
  const auto reflection = align_corners ? MPSGraphPaddingModeReflect : MPSGraphPaddingModeSymmetric;
  if (relative || !normalized || (padding != MPSGraphPaddingModeZero && padding != reflection) ||
      (!channels_last && layout != MPSGraphTensorNamedDataLayoutNCHW)) {
    unsupported("%s with these coordinates, this layout or padding mode %ld", method, (long)padding);
  }
  const auto mode = padding == reflection ? GridSamplerPadding::Reflection : GridSamplerPadding::Zeros;
  const auto expression = [=](const Tensors& inputs) {
    const auto image = widen(channels_last ? inputs[0].movedim(3, 1) : inputs[0]);
    const auto result =
        at::grid_sampler_2d(image, widen(inputs[1]), int64_t(interpolation), int64_t(mode), align_corners);
    return (channels_last ? result.movedim(1, 3) : result).to(inputs[0].scalar_type());
  };
  return add_operation(graph, "sample grid", {source, coordinates}, name, expression, false, method);
}

} // namespace

// Forward and backward; `first` and `second` go on with the selector.
#define RESIZE_METHODS(first, second, add)                                                                           \
  -(MPSGraphTensor*)resizeNearestWith##first : (MPSGraphTensor*)tensor second                                        \
      : (MPSGraphTensor*)other nearestRoundingMode : (MPSGraphResizeNearestRoundingMode)mode centerResult            \
      : (BOOL)center alignCorners : (BOOL)align layout : (MPSGraphTensorNamedDataLayout)layout name                  \
      : (NSString*)name {                                                                                            \
    return add(self, tensor, other, nil, nearest(mode, layout, __func__, center, align), name, __func__);            \
  }                                                                                                                  \
  -(MPSGraphTensor*)resizeNearestWith##first : (MPSGraphTensor*)tensor second                                        \
      : (MPSGraphTensor*)other scaleOffsetTensor : (MPSGraphTensor*)scaleOffset nearestRoundingMode                  \
      : (MPSGraphResizeNearestRoundingMode)mode layout : (MPSGraphTensorNamedDataLayout)layout name                  \
      : (NSString*)name {                                                                                            \
    return add(self, tensor, other, scaleOffset, nearest(mode, layout, __func__), name, __func__);                   \
  }                                                                                                                  \
  -(MPSGraphTensor*)resizeBilinearWith##first : (MPSGraphTensor*)tensor second : (MPSGraphTensor*)other centerResult \
      : (BOOL)center alignCorners : (BOOL)align layout : (MPSGraphTensorNamedDataLayout)layout name                  \
      : (NSString*)name {                                                                                            \
    return add(self, tensor, other, nil, bilinear(layout, __func__, center, align), name, __func__);                 \
  }                                                                                                                  \
  -(MPSGraphTensor*)resizeBilinearWith##first : (MPSGraphTensor*)tensor second                                       \
      : (MPSGraphTensor*)other scaleOffsetTensor : (MPSGraphTensor*)scaleOffset layout                               \
      : (MPSGraphTensorNamedDataLayout)layout name : (NSString*)name {                                               \
    return add(self, tensor, other, scaleOffset, bilinear(layout, __func__), name, __func__);                        \
  }

@implementation MPSGraph (ImageOperations)

RESIZE_METHODS(Tensor, sizeTensor, add_resize)
RESIZE_METHODS(GradientTensor, input, add_resize_gradient)

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinates
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalized
                          relativeCoordinates:(BOOL)relative
                                 alignCorners:(BOOL)align
                                  paddingMode:(MPSGraphPaddingMode)padding
                                 samplingMode:(MPSGraphResizeMode)mode
                                constantValue:(double)constant
                                         name:(NSString*)name {
  const auto interpolation = mode == MPSGraphResizeBilinear ? at::native::GridSamplerInterpolation::Bilinear
                                                            : at::native::GridSamplerInterpolation::Nearest;
  return add_sampling(self, source, coordinates, layout, normalized, relative, align, padding, interpolation, name);
}

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinates
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalized
                          relativeCoordinates:(BOOL)relative
                                 alignCorners:(BOOL)align
                                  paddingMode:(MPSGraphPaddingMode)padding
                          nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)mode
                                constantValue:(double)constant
                                         name:(NSString*)name {
  if (mode != MPSGraphResizeNearestRoundingModeRoundToEven) {
    unsupported("%s with nearest rounding mode %lu", __func__, (unsigned long)mode);
  }
  const auto interpolation = at::native::GridSamplerInterpolation::Nearest;
  return add_sampling(self, source, coordinates, layout, normalized, relative, align, padding, interpolation, name);
}

@end
