// Pooling over images. The source is padded (or cropped, where the last windows
// end before it does) to exactly the pixels that the windows cover; what is left
// is pooling without padding, which ATen has.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>
#include <limits>

namespace mps_simulator::graph {
namespace {

// Height first, then width.
using Pair = std::array<int64_t, 2>;

struct Pooling {
  Pair kernel{};
  Pair stride{};
  Pair dilation{};
  Pair padding_before{};
  Pair padding_after{};
  MPSGraphPaddingStyle padding_style = MPSGraphPaddingStyleExplicit;
  bool channels_last = false;
  bool ceil_mode = false;
  bool include_padding_in_average = false;
  const char* call = nullptr;
};

Pooling pooling_of(MPSGraphPooling2DOpDescriptor* descriptor, const char* call) {
  Pooling pooling;
  pooling.kernel = {(int64_t)descriptor.kernelHeight, (int64_t)descriptor.kernelWidth};
  pooling.stride = {(int64_t)descriptor.strideInY, (int64_t)descriptor.strideInX};
  pooling.dilation = {(int64_t)descriptor.dilationRateInY, (int64_t)descriptor.dilationRateInX};
  pooling.padding_before = {(int64_t)descriptor.paddingTop, (int64_t)descriptor.paddingLeft};
  pooling.padding_after = {(int64_t)descriptor.paddingBottom, (int64_t)descriptor.paddingRight};
  pooling.padding_style = descriptor.paddingStyle;
  pooling.ceil_mode = descriptor.ceilMode;
  pooling.include_padding_in_average = descriptor.includeZeroPadToAverage;
  pooling.call = call;
  switch (descriptor.dataLayout) {
    case MPSGraphTensorNamedDataLayoutNCHW:
    case MPSGraphTensorNamedDataLayoutCHW:
    case MPSGraphTensorNamedDataLayoutHW:
      break;
    case MPSGraphTensorNamedDataLayoutNHWC:
    case MPSGraphTensorNamedDataLayoutHWC:
      pooling.channels_last = true;
      break;
    default:
      unsupported("%s with data layout %lu", call, (unsigned long)descriptor.dataLayout);
  }
  return pooling;
}

at::Tensor channels_first(const at::Tensor& tensor, const Pooling& pooling) {
  if (tensor.dim() < 2 || tensor.dim() > 4) {
    violation("%s: rank %ld; images have rank 2 to 4", pooling.call, (long)tensor.dim());
  }
  auto result = pooling.channels_last ? tensor.movedim(-1, -3) : tensor;
  return result.dim() == 2 ? result.unsqueeze(0) : result;
}

at::Tensor original_layout(const at::Tensor& tensor, int64_t rank, const Pooling& pooling) {
  auto result = rank == 2 ? tensor.squeeze(0) : tensor;
  return pooling.channels_last ? result.movedim(-3, -1) : result;
}

// Where the windows lie over an image of the given height and width.
struct Windows {
  Pair count{};
  Pair before{}; // pixels of padding above and to the left
  Pair after{}; // below and to the right; negative where pixels are left over

  Windows(at::IntArrayRef image, const Pooling& pooling) {
    for (const auto i : c10::irange(2)) {
      const auto extent = image[image.size() - 2 + i];
      const auto reach = pooling.dilation[i] * (pooling.kernel[i] - 1) + 1;
      const auto stride = pooling.stride[i];
      int64_t after_padding = 0;
      switch (pooling.padding_style) {
        case MPSGraphPaddingStyleExplicit:
          before[i] = pooling.padding_before[i];
          after_padding = pooling.padding_after[i];
          break;
        case MPSGraphPaddingStyleTF_VALID:
          break;
        case MPSGraphPaddingStyleTF_SAME:
        case MPSGraphPaddingStyleONNX_SAME_LOWER: {
          const auto outputs = (extent + stride - 1) / stride;
          const auto total = std::max<int64_t>((outputs - 1) * stride + reach - extent, 0);
          before[i] = pooling.padding_style == MPSGraphPaddingStyleTF_SAME ? total / 2 : total - total / 2;
          after_padding = total - before[i];
          break;
        }
        default:
          unsupported("%s with padding style %lu", pooling.call, (unsigned long)pooling.padding_style);
      }
      const auto slack = before[i] + extent + after_padding - reach;
      if (slack < 0) {
        violation("%s: the window is larger than the padded image", pooling.call);
      }
      count[i] = slack / stride + 1;
      // A window that starts behind the image would have nothing to pool.
      if (pooling.ceil_mode && slack % stride != 0 && count[i] * stride < before[i] + extent) {
        ++count[i];
      }
      after[i] = (count[i] - 1) * stride + reach - before[i] - extent;
    }
  }

  at::Tensor cover(const at::Tensor& image, const at::Scalar& value) const {
    if (before[0] == 0 && before[1] == 0 && after[0] == 0 && after[1] == 0) {
      return image;
    }
    return at::constant_pad_nd(image, {before[1], after[1], before[0], after[0]}, value);
  }

  // The part of a gradient of the covered pixels that belongs to the image.
  at::Tensor uncover(const at::Tensor& covered, at::IntArrayRef image) const {
    return at::constant_pad_nd(covered, {-before[1], -after[1], -before[0], -after[0]})
        .reshape(image);
  }

  at::Tensor empty_like_result(const at::Tensor& image, at::ScalarType type) const {
    auto sizes = image.sizes().vec();
    sizes[sizes.size() - 2] = count[0];
    sizes[sizes.size() - 1] = count[1];
    return at::empty(sizes, image.options().dtype(type));
  }
};

// In a type in which the padding is less than every pixel, so that no window
// finds its maximum there.
at::Tensor widen_for_maximum(const at::Tensor& image) {
  return at::isIntegralType(image.scalar_type(), /*includeBool=*/true) ? image.to(at::kLong) : widen(image);
}

at::Tensor cover_with_lowest(const Windows& windows, const at::Tensor& image) {
  return image.is_floating_point() ? windows.cover(image, -std::numeric_limits<double>::infinity())
                                   : windows.cover(image, std::numeric_limits<int64_t>::min());
}

struct Maxima {
  at::Tensor values;
  at::Tensor indices; // into the flattened covered image
};

Maxima maxima(const at::Tensor& covered, const Pooling& pooling) {
  auto [values, indices] = at::max_pool2d_with_indices(
      covered, pooling.kernel, pooling.stride, /*padding=*/{0, 0}, pooling.dilation, /*ceil_mode=*/false);
  return {values, indices};
}

at::Tensor max_pool(const at::Tensor& source, const Pooling& pooling) {
  const auto image = channels_first(source, pooling);
  const Windows windows(image.sizes(), pooling);
  if (is_sample(image)) {
    return original_layout(windows.empty_like_result(image, image.scalar_type()), source.dim(), pooling);
  }
  const auto covered = cover_with_lowest(windows, widen_for_maximum(image));
  return original_layout(maxima(covered, pooling).values.to(source.scalar_type()), source.dim(), pooling);
}

// What the index of a maximum counts: positions in the image or in the window,
// of the innermost `dimensions` of the tensor as it lies in memory.
struct IndexMode {
  bool local = false;
  int64_t dimensions = 2;
};

IndexMode index_mode_of(MPSGraphPoolingReturnIndicesMode mode, const char* call) {
  if (mode < MPSGraphPoolingReturnIndicesGlobalFlatten1D || mode > MPSGraphPoolingReturnIndicesLocalFlatten4D) {
    violation("%s: return indices mode %lu", call, (unsigned long)mode);
  }
  const bool local = mode >= MPSGraphPoolingReturnIndicesLocalFlatten1D;
  const auto first = local ? MPSGraphPoolingReturnIndicesLocalFlatten1D : MPSGraphPoolingReturnIndicesGlobalFlatten1D;
  return {local, static_cast<int64_t>(mode - first) + 1};
}

// Row and column of each maximum, channels first, become one number, in the
// layout of the source.
at::Tensor flat_indices(
    const at::Tensor& row,
    const at::Tensor& column,
    at::IntArrayRef source,
    const Windows& windows,
    const Pooling& pooling,
    IndexMode mode) {
  const auto options = row.options();
  const auto rank = static_cast<int64_t>(source.size());
  const auto along = [&](int64_t count, int64_t axis) {
    return at::arange(count, options).reshape(axis == -2 ? at::IntArrayRef{count, 1} : at::IntArrayRef{count});
  };
  const auto place = [&](const at::Tensor& coordinate, int i) {
    if (!mode.local) {
      return coordinate;
    }
    const auto start = along(windows.count[i], i - 2) * pooling.stride[i] - windows.before[i];
    return at::floor_divide(coordinate - start, pooling.dilation[i]);
  };
  // Coordinates and extents of all dimensions, in the source's order.
  const auto height_axis = rank - (pooling.channels_last ? 3 : 2);
  const auto shape = original_layout(row, rank, pooling).sizes().vec();
  at::Tensor result = at::zeros(shape, options);
  for (auto axis = std::max<int64_t>(rank - mode.dimensions, 0); axis < rank; ++axis) {
    const int i = static_cast<int>(axis - height_axis);
    const bool spatial = i == 0 || i == 1;
    at::Tensor coordinate;
    if (spatial) {
      coordinate = original_layout(place(i == 0 ? row : column, i), rank, pooling);
    } else if (mode.local) {
      // A window has the extent one here.
      continue;
    } else {
      std::vector<int64_t> broadcast(rank, 1);
      broadcast[axis] = source[axis];
      coordinate = at::arange(source[axis], options).reshape(broadcast);
    }
    result = result * (spatial && mode.local ? pooling.kernel[i] : source[axis]) + coordinate;
  }
  return result;
}

Tensors max_pool_with_indices(
    const at::Tensor& source,
    const Pooling& pooling,
    IndexMode mode,
    at::ScalarType index_type) {
  const auto image = channels_first(source, pooling);
  const Windows windows(image.sizes(), pooling);
  if (is_sample(image)) {
    return {
        original_layout(windows.empty_like_result(image, image.scalar_type()), source.dim(), pooling),
        original_layout(windows.empty_like_result(image, index_type), source.dim(), pooling)};
  }
  const auto covered = cover_with_lowest(windows, widen_for_maximum(image));
  const auto pooled = maxima(covered, pooling);
  const auto row = at::floor_divide(pooled.indices, covered.size(-1)) - windows.before[0];
  const auto column = at::remainder(pooled.indices, covered.size(-1)) - windows.before[1];
  return {
      original_layout(pooled.values.to(source.scalar_type()), source.dim(), pooling),
      flat_indices(row, column, source.sizes(), windows, pooling, mode).to(index_type)};
}

at::Tensor max_pool_gradient(const at::Tensor& gradient, const at::Tensor& source, const Pooling& pooling) {
  if (is_sample(source)) {
    return at::empty_like(source);
  }
  const auto image = channels_first(source, pooling);
  const Windows windows(image.sizes(), pooling);
  const auto covered = cover_with_lowest(windows, widen_for_maximum(image)).contiguous();
  const auto pooled = maxima(covered, pooling);
  const auto covered_gradient = at::max_pool2d_with_indices_backward(
      widen(channels_first(gradient, pooling)).contiguous(),
      covered,
      pooling.kernel,
      pooling.stride,
      /*padding=*/{0, 0},
      pooling.dilation,
      /*ceil_mode=*/false,
      pooled.indices.contiguous());
  return original_layout(
      windows.uncover(covered_gradient, image.sizes()).to(source.scalar_type()), source.dim(), pooling);
}

at::Tensor window_sums(const at::Tensor& covered, const Pooling& pooling) {
  if (pooling.dilation == Pair{1, 1}) {
    return at::avg_pool2d(
        covered,
        pooling.kernel,
        pooling.stride,
        /*padding=*/{0, 0},
        /*ceil_mode=*/false,
        /*count_include_pad=*/true,
        /*divisor_override=*/1);
  }
  // Each pixel of the window in turn, over all windows at once.
  const auto reach = [&](int i) { return pooling.dilation[i] * (pooling.kernel[i] - 1); };
  at::Tensor sums;
  for (const auto row : c10::irange(pooling.kernel[0])) {
    for (const auto column : c10::irange(pooling.kernel[1])) {
      const auto top = row * pooling.dilation[0];
      const auto left = column * pooling.dilation[1];
      const auto pixels = covered.slice(-2, top, covered.size(-2) - reach(0) + top, pooling.stride[0])
                              .slice(-1, left, covered.size(-1) - reach(1) + left, pooling.stride[1]);
      sums = sums.defined() ? sums + pixels : pixels;
    }
  }
  return sums;
}

// The gradient of window_sums.
at::Tensor spread_over_windows(const at::Tensor& gradient, const at::Tensor& covered, const Pooling& pooling) {
  if (pooling.dilation == Pair{1, 1}) {
    return at::avg_pool2d_backward(
        gradient.contiguous(),
        covered,
        pooling.kernel,
        pooling.stride,
        /*padding=*/{0, 0},
        /*ceil_mode=*/false,
        /*count_include_pad=*/true,
        /*divisor_override=*/1);
  }
  auto result = at::zeros_like(covered);
  for (const auto row : c10::irange(pooling.kernel[0])) {
    for (const auto column : c10::irange(pooling.kernel[1])) {
      const auto top = row * pooling.dilation[0];
      const auto left = column * pooling.dilation[1];
      const auto past = [&](int i, int64_t count) { return (count - 1) * pooling.stride[i] + 1; };
      result.slice(-2, top, top + past(0, gradient.size(-2)), pooling.stride[0])
          .slice(-1, left, left + past(1, gradient.size(-1)), pooling.stride[1])
          .add_(gradient);
    }
  }
  return result;
}

// How many pixels each window's sum is divided by.
at::Tensor divisors(
    const Windows& windows,
    const at::Tensor& image,
    const Pooling& pooling,
    const at::TensorOptions& options) {
  if (pooling.include_padding_in_average) {
    return at::full({}, static_cast<double>(pooling.kernel[0] * pooling.kernel[1]), options);
  }
  const auto ones = at::ones({1, image.size(-2), image.size(-1)}, options);
  return window_sums(windows.cover(ones, 0), pooling);
}

at::Tensor average_pool(const at::Tensor& source, const Pooling& pooling) {
  const auto image = channels_first(source, pooling);
  const Windows windows(image.sizes(), pooling);
  if (is_sample(image)) {
    return original_layout(windows.empty_like_result(image, image.scalar_type()), source.dim(), pooling);
  }
  // Sums of integers are exact in double precision as long as they matter.
  const bool integral = at::isIntegralType(source.scalar_type(), /*includeBool=*/true);
  const auto wide = integral ? image.to(at::kDouble) : widen(image);
  auto result = window_sums(windows.cover(wide, 0), pooling) / divisors(windows, image, pooling, wide.options());
  if (integral) {
    result = result.trunc();
  }
  return original_layout(result.to(source.scalar_type()), source.dim(), pooling);
}

at::Tensor average_pool_gradient(const at::Tensor& gradient, const at::Tensor& source, const Pooling& pooling) {
  if (is_sample(source)) {
    return at::empty_like(source);
  }
  const auto image = channels_first(source, pooling);
  const Windows windows(image.sizes(), pooling);
  const auto wide = widen(channels_first(gradient, pooling));
  const auto covered = windows.cover(widen(image), 0);
  const auto covered_gradient =
      spread_over_windows(wide / divisors(windows, image, pooling, wide.options()), covered, pooling);
  return original_layout(
      windows.uncover(covered_gradient, image.sizes()).to(source.scalar_type()), source.dim(), pooling);
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphPoolingOps)

- (MPSGraphTensor*)maxPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  COUNT_CALL();
  const auto pooling = pooling_of(descriptor, __func__);
  return add_operation(
      self, "max pooling", {source}, [=](const Tensors& inputs) { return max_pool(inputs[0], pooling); }, name);
}

- (NSArray<MPSGraphTensor*>*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  COUNT_CALL();
  const auto pooling = pooling_of(descriptor, __func__);
  const auto mode = index_mode_of(descriptor.returnIndicesMode, __func__);
  const auto index_type = to_scalar_type(descriptor.returnIndicesDataType);
  return add_operations(
      self,
      "max pooling with indices",
      {source},
      2,
      [=](const Tensors& inputs) { return max_pool_with_indices(inputs[0], pooling, mode, index_type); },
      name);
}

- (MPSGraphTensor*)maxPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  const auto pooling = pooling_of(descriptor, __func__);
  return add_operation(
      self,
      "max pooling gradient",
      {gradient, sourceTensor},
      [=](const Tensors& inputs) { return max_pool_gradient(inputs[0], inputs[1], pooling); },
      name);
}

- (MPSGraphTensor*)avgPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  COUNT_CALL();
  const auto pooling = pooling_of(descriptor, __func__);
  return add_operation(
      self, "average pooling", {source}, [=](const Tensors& inputs) { return average_pool(inputs[0], pooling); }, name);
}

- (MPSGraphTensor*)avgPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  const auto pooling = pooling_of(descriptor, __func__);
  return add_operation(
      self,
      "average pooling gradient",
      {gradient, sourceTensor},
      [=](const Tensors& inputs) { return average_pool_gradient(inputs[0], inputs[1], pooling); },
      name);
}

@end
