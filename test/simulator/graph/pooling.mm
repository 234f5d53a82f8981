// Pooling over images. The source is padded (or cropped, where the last windows
// end before it does) to exactly the pixels that the windows cover; what is left
// is pooling without padding, which ATen has.
#include "graph/elementwise.h"
#include "graph/windows.h"

#include <ATen/ATen.h>

#include <limits>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

struct Pooling : Windows {
  Sizes kernel;
  bool channels_last;
  bool ceil_mode;
  bool include_padding_in_average;

  Pooling(MPSGraphPooling2DOpDescriptor* descriptor, const char* method)
      : Windows(windows_of(descriptor)),
        kernel{(int64_t)descriptor.kernelHeight, (int64_t)descriptor.kernelWidth},
        channels_last(descriptor.dataLayout == MPSGraphTensorNamedDataLayoutNHWC),
        ceil_mode(descriptor.ceilMode),
        include_padding_in_average(descriptor.includeZeroPadToAverage) {
    if (!channels_last && descriptor.dataLayout != MPSGraphTensorNamedDataLayoutNCHW) {
      unsupported("%s with data layout %lu", method, (unsigned long)descriptor.dataLayout);
    }
  }

  at::Tensor channels_first(const at::Tensor& tensor) const {
    return channels_last ? tensor.movedim(-1, -3) : tensor;
  }

  at::Tensor original_layout(const at::Tensor& tensor) const {
    return channels_last ? tensor.movedim(-3, -1) : tensor;
  }

  // The image with its padding; where the last window ends before the image does, without the rest.
  at::Tensor cover(const at::Tensor& image, const at::Scalar& value) const {
    Sizes amounts;
    for (const size_t i : {1, 0}) {
      const auto extent = image.size(static_cast<int64_t>(i) - 2);
      const auto reach = dilation[i] * (kernel[i] - 1) + 1;
      const auto slack = before[i] + extent + after[i] - reach;
      TORCH_CHECK(slack >= 0, "the window is larger than the padded image");
      auto windows = slack / stride[i] + 1;
      // A window that starts behind the image would have nothing to pool.
      if (ceil_mode && slack % stride[i] != 0 && windows * stride[i] < before[i] + extent) {
        ++windows;
      }
      amounts.push_back(before[i]);
      amounts.push_back((windows - 1) * stride[i] + reach - before[i] - extent);
    }
    return at::constant_pad_nd(image, amounts, value);
  }
};

// Values and indices, which count in the last two dimensions of the source as it lies in memory.
Tensors max_pool(const at::Tensor& source, const Pooling& pooling) {
  const auto image = pooling.channels_first(source);
  // In a type in which the padding is less than every pixel, so that no window finds its maximum there.
  const auto covered = at::isIntegralType(source.scalar_type(), /*includeBool=*/true)
      ? pooling.cover(image.to(at::kLong), std::numeric_limits<int64_t>::min())
      : pooling.cover(widen(image), -std::numeric_limits<double>::infinity());
  const auto [values, indices] =
      at::max_pool2d_with_indices(covered, pooling.kernel, pooling.stride, {0, 0}, pooling.dilation);
  const auto row = at::floor_divide(indices, covered.size(-1)) - pooling.before[0];
  const auto column = at::remainder(indices, covered.size(-1)) - pooling.before[1];
  const auto place = pooling.channels_last
      ? pooling.original_layout(column) * source.size(-1) + at::arange(source.size(-1), column.options())
      : row * image.size(-1) + column;
  return {pooling.original_layout(values.to(source.scalar_type())), place};
}

at::Tensor average_pool(const at::Tensor& source, const Pooling& pooling) {
  TORCH_CHECK_NOT_IMPLEMENTED(pooling.dilation == (Sizes{1, 1}), "averages of windows with gaps are not simulated");
  const auto sums = [&](const at::Tensor& image) {
    return at::avg_pool2d(pooling.cover(image, 0), pooling.kernel, pooling.stride, {0, 0}, false, true, 1);
  };
  const auto image = pooling.channels_first(source);
  // Sums of integers are exact in double precision as long as they matter.
  const bool integral = at::isIntegralType(source.scalar_type(), /*includeBool=*/true);
  const auto wide = integral ? image.to(at::kDouble) : widen(image);
  const auto result = pooling.include_padding_in_average
      ? sums(wide) / static_cast<double>(pooling.kernel[0] * pooling.kernel[1])
      : sums(wide) / sums(at::ones({1, image.size(-2), image.size(-1)}, wide.options()));
  return pooling.original_layout((integral ? result.trunc() : result).to(source.scalar_type()));
}

at::Tensor max_pool_values(const at::Tensor& source, const Pooling& pooling) {
  return max_pool(source, pooling)[0];
}

} // namespace

#define POOLING_METHODS(name_, kind, function)                                                                   \
  -(MPSGraphTensor*)name_##WithSourceTensor : (MPSGraphTensor*)source descriptor                                 \
      : (MPSGraphPooling2DOpDescriptor*)descriptor name : (NSString*)name {                                      \
    const Pooling pooling(descriptor, __func__);                                                                 \
    return add_operation(                                                                                        \
        self, kind, {source}, name, [=](const Tensors& inputs) { return function(inputs[0], pooling); });        \
  }                                                                                                              \
  -(MPSGraphTensor*)name_##GradientWithGradientTensor : (MPSGraphTensor*)gradient sourceTensor                   \
      : (MPSGraphTensor*)source descriptor : (MPSGraphPooling2DOpDescriptor*)descriptor name : (NSString*)name { \
    const Pooling pooling(descriptor, __func__);                                                                 \
    return add_operation(self, kind " gradient", {gradient, source}, name, [=](const Tensors& inputs) {          \
      const auto pool = [&](const at::Tensor& image) { return function(image, pooling); };                       \
      return gradient_of(pool, inputs[1], inputs[0]);                                                            \
    });                                                                                                          \
  }

@implementation MPSGraph (PoolingOperations)

POOLING_METHODS(maxPooling2D, "max pooling", max_pool_values)
POOLING_METHODS(avgPooling2D, "average pooling", average_pool)

- (NSArray*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                           descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                 name:(NSString*)name {
  const Pooling pooling(descriptor, __func__);
  if (descriptor.returnIndicesMode != MPSGraphPoolingReturnIndicesGlobalFlatten2D) {
    unsupported("%s with return indices mode %lu", __func__, (unsigned long)descriptor.returnIndicesMode);
  }
  const auto type = to_scalar_type(descriptor.returnIndicesDataType);
  return add_operations(self, "max pooling with indices", {source}, 2, name, [=](const Tensors& inputs) {
    const auto found = max_pool(inputs[0], pooling);
    return Tensors{found[0], found[1].to(type)};
  });
}

@end
