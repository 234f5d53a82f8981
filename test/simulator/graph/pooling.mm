// Pooling over images. The source is padded (or cropped, where the last windows
// end before it does) to exactly the pixels that the windows cover; what is left
// is pooling without padding, which ATen has.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "graph/windows.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace mps_simulator::graph {
namespace {

struct Pooling : WindowGeometry {
  Sizes kernel;
  bool channels_last = false;
  bool ceil_mode = false;
  bool include_padding_in_average = false;
  const char* call = nullptr;

  Pooling(MPSGraphPooling2DOpDescriptor* descriptor, const char* call) : call(call) {
    read_plane(descriptor, *this);
    kernel = {(int64_t)descriptor.kernelHeight, (int64_t)descriptor.kernelWidth};
    channels_last = has_channels_last(descriptor.dataLayout, call);
    ceil_mode = descriptor.ceilMode;
    include_padding_in_average = descriptor.includeZeroPadToAverage;
  }

  bool is_dilated() const {
    return dilation != Sizes{1, 1};
  }
};

// The source with channels in front, and the windows over it.
struct Pooled {
  const Pooling& pooling;
  at::Tensor source;
  at::Tensor image;
  // Height first, then width.
  Sizes count;
  Sizes before; // pixels of padding above and to the left
  Sizes after; // below and to the right; negative where pixels are left over

  Pooled(const at::Tensor& source, const Pooling& pooling)
      : pooling(pooling), source(source), image(channels_first(source)) {
    for (const auto i : c10::irange(pooling.space())) {
      const auto extent = image.size(static_cast<int64_t>(i) - 2);
      const auto reach = pooling.reach(i, pooling.kernel[i]);
      const auto stride = pooling.stride[i];
      const auto padding = pooling.padding(i, extent, pooling.kernel[i], pooling.call);
      const auto slack = padding.before + extent + padding.after - reach;
      if (slack < 0) {
        violation("%s: the window is larger than the padded image", pooling.call);
      }
      auto windows = slack / stride + 1;
      // A window that starts behind the image would have nothing to pool.
      if (pooling.ceil_mode && slack % stride != 0 && windows * stride < padding.before + extent) {
        ++windows;
      }
      count.push_back(windows);
      before.push_back(padding.before);
      after.push_back((windows - 1) * stride + reach - padding.before - extent);
    }
  }

  at::Tensor channels_first(const at::Tensor& tensor) const {
    if (tensor.dim() < 2 || tensor.dim() > 4) {
      violation("%s: rank %ld; images have rank 2 to 4", pooling.call, (long)tensor.dim());
    }
    auto result = pooling.channels_last ? tensor.movedim(-1, -3) : tensor;
    return result.dim() == 2 ? result.unsqueeze(0) : result;
  }

  at::Tensor original_layout(const at::Tensor& tensor) const {
    auto result = source.dim() == 2 ? tensor.squeeze(0) : tensor;
    return pooling.channels_last ? result.movedim(-3, -1) : result;
  }

  // A result in the layout and the type of the source.
  at::Tensor as_source(const at::Tensor& tensor) const {
    return original_layout(tensor.to(source.scalar_type()));
  }

  at::Tensor empty_result(at::ScalarType type) const {
    auto sizes = image.sizes().vec();
    std::copy(count.begin(), count.end(), sizes.end() - 2);
    return original_layout(at::empty(sizes, image.options().dtype(type)));
  }

  at::Tensor cover(const at::Tensor& image, const at::Scalar& value) const {
    if (before == Sizes{0, 0} && after == before) {
      return image;
    }
    return at::constant_pad_nd(image, {before[1], after[1], before[0], after[0]}, value);
  }

  // The part of a gradient of the covered pixels that belongs to the image.
  at::Tensor uncover(const at::Tensor& covered) const {
    return at::constant_pad_nd(covered, {-before[1], -after[1], -before[0], -after[0]}).reshape(image.sizes());
  }

  // In a type in which the padding is less than every pixel, so that no window
  // finds its maximum there.
  at::Tensor covered_with_lowest() const {
    return at::isIntegralType(source.scalar_type(), /*includeBool=*/true)
        ? cover(image.to(at::kLong), std::numeric_limits<int64_t>::min())
        : cover(widen(image), -std::numeric_limits<double>::infinity());
  }
};

struct Maxima {
  at::Tensor values;
  at::Tensor indices; // into the flattened covered image
};

Maxima maxima(const at::Tensor& covered, const Pooling& pooling) {
  auto [values, indices] = at::max_pool2d_with_indices(
      covered, pooling.kernel, pooling.stride, /*padding=*/{0, 0}, pooling.dilation, /*ceil_mode=*/false);
  return {values, indices};
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
at::Tensor flat_indices(const at::Tensor& row, const at::Tensor& column, const Pooled& pooled, IndexMode mode) {
  const auto& pooling = pooled.pooling;
  const auto source = pooled.source.sizes();
  const auto options = row.options();
  const auto rank = static_cast<int64_t>(source.size());
  const auto along = [&](int64_t count, int64_t axis) {
    return at::arange(count, options).reshape(axis == -2 ? at::IntArrayRef{count, 1} : at::IntArrayRef{count});
  };
  const auto place = [&](const at::Tensor& coordinate, int i) {
    if (!mode.local) {
      return coordinate;
    }
    const auto start = along(pooled.count[i], i - 2) * pooling.stride[i] - pooled.before[i];
    return at::floor_divide(coordinate - start, pooling.dilation[i]);
  };
  // Coordinates and extents of all dimensions, in the source's order.
  const auto height_axis = rank - (pooling.channels_last ? 3 : 2);
  const auto shape = pooled.original_layout(row).sizes().vec();
  at::Tensor result = at::zeros(shape, options);
  for (auto axis = std::max<int64_t>(rank - mode.dimensions, 0); axis < rank; ++axis) {
    const int i = static_cast<int>(axis - height_axis);
    const bool spatial = i == 0 || i == 1;
    at::Tensor coordinate;
    if (spatial) {
      coordinate = pooled.original_layout(place(i == 0 ? row : column, i));
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

at::Tensor max_pool(const at::Tensor& source, const Pooling& pooling) {
  const Pooled pooled(source, pooling);
  if (is_sample(pooled.image)) {
    return pooled.empty_result(source.scalar_type());
  }
  return pooled.as_source(maxima(pooled.covered_with_lowest(), pooling).values);
}

Tensors max_pool_with_indices(const at::Tensor& source,
                              const Pooling& pooling,
                              IndexMode mode,
                              at::ScalarType index_type) {
  const Pooled pooled(source, pooling);
  if (is_sample(pooled.image)) {
    return {pooled.empty_result(source.scalar_type()), pooled.empty_result(index_type)};
  }
  const auto covered = pooled.covered_with_lowest();
  const auto found = maxima(covered, pooling);
  const auto row = at::floor_divide(found.indices, covered.size(-1)) - pooled.before[0];
  const auto column = at::remainder(found.indices, covered.size(-1)) - pooled.before[1];
  return {pooled.as_source(found.values), flat_indices(row, column, pooled, mode).to(index_type)};
}

at::Tensor max_pool_gradient(const at::Tensor& gradient, const at::Tensor& source, const Pooling& pooling) {
  if (is_sample(source)) {
    return at::empty_like(source);
  }
  const Pooled pooled(source, pooling);
  const auto covered = pooled.covered_with_lowest().contiguous();
  const auto covered_gradient =
      at::max_pool2d_with_indices_backward(widen(pooled.channels_first(gradient)).contiguous(),
                                           covered,
                                           pooling.kernel,
                                           pooling.stride,
                                           /*padding=*/{0, 0},
                                           pooling.dilation,
                                           /*ceil_mode=*/false,
                                           maxima(covered, pooling).indices.contiguous());
  return pooled.as_source(pooled.uncover(covered_gradient));
}

// The n-th pixels of all windows, for each n: `visit` gets them as a part of the covered image.
template <typename Visit>
void each_pixel_of_windows(const at::Tensor& covered, const Pooling& pooling, Visit visit) {
  const auto nth = [&](const at::Tensor& image, int64_t axis, int64_t place) {
    const auto i = static_cast<size_t>(axis + 2);
    const auto start = place * pooling.dilation[i];
    return image.slice(
        axis, start, image.size(axis) - pooling.reach(i, pooling.kernel[i]) + 1 + start, pooling.stride[i]);
  };
  for (const auto row : c10::irange(pooling.kernel[0])) {
    for (const auto column : c10::irange(pooling.kernel[1])) {
      visit(nth(nth(covered, -2, row), -1, column));
    }
  }
}

at::Tensor window_sums(const at::Tensor& covered, const Pooling& pooling) {
  if (!pooling.is_dilated()) {
    return at::avg_pool2d(covered,
                          pooling.kernel,
                          pooling.stride,
                          /*padding=*/{0, 0},
                          /*ceil_mode=*/false,
                          /*count_include_pad=*/true,
                          /*divisor_override=*/1);
  }
  at::Tensor sums;
  each_pixel_of_windows(
      covered, pooling, [&](const at::Tensor& pixels) { sums = sums.defined() ? sums + pixels : pixels; });
  return sums;
}

// The gradient of window_sums.
at::Tensor spread_over_windows(const at::Tensor& gradient, const at::Tensor& covered, const Pooling& pooling) {
  if (!pooling.is_dilated()) {
    return at::avg_pool2d_backward(gradient.contiguous(),
                                   covered,
                                   pooling.kernel,
                                   pooling.stride,
                                   /*padding=*/{0, 0},
                                   /*ceil_mode=*/false,
                                   /*count_include_pad=*/true,
                                   /*divisor_override=*/1);
  }
  auto result = at::zeros_like(covered);
  each_pixel_of_windows(result, pooling, [&](const at::Tensor& pixels) { pixels.add_(gradient); });
  return result;
}

// How many pixels each window's sum is divided by.
at::Tensor divisors(const Pooled& pooled, const at::TensorOptions& options) {
  const auto& pooling = pooled.pooling;
  if (pooling.include_padding_in_average) {
    return at::full({}, static_cast<double>(pooling.kernel[0] * pooling.kernel[1]), options);
  }
  const auto ones = at::ones({1, pooled.image.size(-2), pooled.image.size(-1)}, options);
  return window_sums(pooled.cover(ones, 0), pooling);
}

at::Tensor average_pool(const at::Tensor& source, const Pooling& pooling) {
  const Pooled pooled(source, pooling);
  if (is_sample(pooled.image)) {
    return pooled.empty_result(source.scalar_type());
  }
  // Sums of integers are exact in double precision as long as they matter.
  const bool integral = at::isIntegralType(source.scalar_type(), /*includeBool=*/true);
  const auto wide = integral ? pooled.image.to(at::kDouble) : widen(pooled.image);
  const auto result = window_sums(pooled.cover(wide, 0), pooling) / divisors(pooled, wide.options());
  return pooled.as_source(integral ? result.trunc() : result);
}

at::Tensor average_pool_gradient(const at::Tensor& gradient, const at::Tensor& source, const Pooling& pooling) {
  if (is_sample(source)) {
    return at::empty_like(source);
  }
  const Pooled pooled(source, pooling);
  const auto wide = widen(pooled.channels_first(gradient));
  const auto covered = pooled.cover(widen(pooled.image), 0);
  const auto covered_gradient = spread_over_windows(wide / divisors(pooled, wide.options()), covered, pooling);
  return pooled.as_source(pooled.uncover(covered_gradient));
}

// `pool` takes the inputs and the pooling.
template <typename Pool>
MPSGraphTensor* add_pooling(MPSGraph* graph,
                            const char* kind,
                            std::vector<MPSGraphTensor*> inputs,
                            MPSGraphPooling2DOpDescriptor* descriptor,
                            NSString* name,
                            const char* call,
                            Pool pool) {
  const Pooling pooling(descriptor, call);
  return add_operation(graph, kind, std::move(inputs), name, [=](const Tensors& inputs) {
    if constexpr (std::is_invocable_v<Pool, const at::Tensor&, const Pooling&>) {
      return pool(inputs[0], pooling);
    } else {
      return pool(inputs[0], inputs[1], pooling);
    }
  });
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
  return add_pooling(self, "max pooling", {source}, descriptor, name, __func__, max_pool);
}

- (NSArray<MPSGraphTensor*>*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                                  name:(NSString*)name {
  COUNT_CALL();
  const Pooling pooling(descriptor, __func__);
  const auto mode = index_mode_of(descriptor.returnIndicesMode, __func__);
  const auto index_type = to_scalar_type(descriptor.returnIndicesDataType);
  return add_operations(self, "max pooling with indices", {source}, 2, name, [=](const Tensors& inputs) {
    return max_pool_with_indices(inputs[0], pooling, mode, index_type);
  });
}

- (MPSGraphTensor*)maxPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  return add_pooling(self, "max pooling gradient", {gradient, source}, descriptor, name, __func__, max_pool_gradient);
}

- (MPSGraphTensor*)avgPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString*)name {
  COUNT_CALL();
  return add_pooling(self, "average pooling", {source}, descriptor, name, __func__, average_pool);
}

- (MPSGraphTensor*)avgPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)source
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  return add_pooling(
      self, "average pooling gradient", {gradient, source}, descriptor, name, __func__, average_pool_gradient);
}

@end
