// Convolutions and their gradients. Each operation brings its operands into
// ATen's layout (batch, channels, space; output, input, space), computes, and
// brings the result back into the layout that the descriptor names.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <vector>

namespace mps_simulator::graph {
namespace {

using Sizes = std::vector<int64_t>;

struct Geometry {
  // Space from the outermost to the innermost dimension: (depth,) height, width.
  Sizes stride;
  Sizes dilation;
  Sizes padding_before;
  Sizes padding_after;
  MPSGraphPaddingStyle padding_style = MPSGraphPaddingStyleExplicit;
  int64_t groups = 1;
  MPSGraphTensorNamedDataLayout data_layout = MPSGraphTensorNamedDataLayoutNCHW;
  MPSGraphTensorNamedDataLayout weights_layout = MPSGraphTensorNamedDataLayoutOIHW;

  size_t space() const {
    return stride.size();
  }
};

// A permutation that turns the layout into ATen's, or empty when it is ATen's.
Sizes data_permutation(MPSGraphTensorNamedDataLayout layout, const char* call) {
  switch (layout) {
    case MPSGraphTensorNamedDataLayoutNCHW:
    case MPSGraphTensorNamedDataLayoutNCDHW:
      return {};
    case MPSGraphTensorNamedDataLayoutNHWC:
      return {0, 3, 1, 2};
    case MPSGraphTensorNamedDataLayoutNDHWC:
      return {0, 4, 1, 2, 3};
    default:
      unsupported("%s with data layout %lu", call, (unsigned long)layout);
  }
}

Sizes weights_permutation(MPSGraphTensorNamedDataLayout layout, const char* call) {
  switch (layout) {
    case MPSGraphTensorNamedDataLayoutOIHW:
    case MPSGraphTensorNamedDataLayoutOIDHW:
      return {};
    case MPSGraphTensorNamedDataLayoutHWIO:
      return {3, 2, 0, 1};
    case MPSGraphTensorNamedDataLayoutDHWIO:
      return {4, 3, 0, 1, 2};
    default:
      unsupported("%s with weights layout %lu", call, (unsigned long)layout);
  }
}

at::Tensor to_aten_layout(const at::Tensor& tensor, const Sizes& permutation) {
  return permutation.empty() ? tensor : tensor.permute(permutation);
}

at::Tensor from_aten_layout(const at::Tensor& tensor, const Sizes& permutation) {
  if (permutation.empty()) {
    return tensor;
  }
  Sizes inverse(permutation.size());
  for (const auto i : c10::irange(permutation.size())) {
    inverse[permutation[i]] = static_cast<int64_t>(i);
  }
  return tensor.permute(inverse);
}

Sizes permuted(const Sizes& sizes, const Sizes& permutation) {
  if (permutation.empty()) {
    return sizes;
  }
  Sizes result;
  for (const auto axis : permutation) {
    result.push_back(sizes[axis]);
  }
  return result;
}

struct Padding {
  Sizes before;
  Sizes after;

  bool symmetric() const {
    return before == after;
  }

  // In the order of constant_pad_nd: innermost dimension first.
  Sizes pairs() const {
    Sizes result;
    for (size_t i = before.size(); i-- > 0;) {
      result.push_back(before[i]);
      result.push_back(after[i]);
    }
    return result;
  }
};

Padding resolve_padding(const Geometry& geometry, at::IntArrayRef source, at::IntArrayRef kernel, const char* call) {
  const auto space = geometry.space();
  Padding padding{Sizes(space), Sizes(space)};
  for (const auto i : c10::irange(space)) {
    const auto total = [&] {
      const int64_t extent = source[i];
      const int64_t outputs = (extent + geometry.stride[i] - 1) / geometry.stride[i];
      const int64_t needed = (outputs - 1) * geometry.stride[i] + geometry.dilation[i] * (kernel[i] - 1) + 1;
      return std::max<int64_t>(needed - extent, 0);
    };
    switch (geometry.padding_style) {
      case MPSGraphPaddingStyleExplicit:
        padding.before[i] = geometry.padding_before[i];
        padding.after[i] = geometry.padding_after[i];
        break;
      case MPSGraphPaddingStyleTF_VALID:
        break;
      case MPSGraphPaddingStyleTF_SAME:
        padding.before[i] = total() / 2;
        padding.after[i] = total() - padding.before[i];
        break;
      case MPSGraphPaddingStyleONNX_SAME_LOWER:
        padding.after[i] = total() / 2;
        padding.before[i] = total() - padding.after[i];
        break;
      default:
        unsupported("%s with padding style %lu", call, (unsigned long)geometry.padding_style);
    }
  }
  return padding;
}

// A source may be larger than what the windows of a gradient of this extent
// reach (a transposed convolution with output padding). Negative padding leaves
// the rest away, which ATen's kernels do not.
void leave_unreached(
    Padding& padding,
    const Geometry& geometry,
    at::IntArrayRef source,
    at::IntArrayRef kernel,
    at::IntArrayRef gradient) {
  for (const auto i : c10::irange(geometry.space())) {
    const auto reached = (gradient[i] - 1) * geometry.stride[i] + geometry.dilation[i] * (kernel[i] - 1) + 1;
    if (padding.before[i] + source[i] + padding.after[i] - reached >= geometry.stride[i]) {
      padding.after[i] = reached - padding.before[i] - source[i];
    }
  }
}

void check_type(const at::Tensor& tensor, const char* call) {
  if (!tensor.is_floating_point()) {
    violation("%s: a convolution takes floating-point tensors, not %s", call, c10::toString(tensor.scalar_type()));
  }
}

// Everything below sees ATen's layouts only.

at::Tensor forward(const at::Tensor& source, const at::Tensor& weights, const Geometry& geometry, const char* call) {
  check_type(source, call);
  const auto space = geometry.space();
  const auto kernel = weights.sizes().slice(2);
  const auto padding = resolve_padding(geometry, source.sizes().slice(2), kernel, call);
  if (is_sample(source)) {
    Sizes sizes{source.size(0), weights.size(0)};
    for (const auto i : c10::irange(space)) {
      const auto extent = source.size(static_cast<int64_t>(i) + 2) + padding.before[i] + padding.after[i];
      sizes.push_back((extent - geometry.dilation[i] * (kernel[i] - 1) - 1) / geometry.stride[i] + 1);
    }
    return at::empty(sizes, source.options());
  }
  auto input = widen(source);
  Sizes symmetric = padding.before;
  if (!padding.symmetric()) {
    input = at::constant_pad_nd(input, padding.pairs());
    symmetric.assign(space, 0);
  }
  return at::convolution(
             input,
             widen(weights),
             /*bias=*/{},
             geometry.stride,
             symmetric,
             geometry.dilation,
             /*transposed=*/false,
             Sizes(space),
             geometry.groups)
      .to(source.scalar_type());
}

at::Tensor data_gradient(
    const at::Tensor& gradient,
    const at::Tensor& weights,
    const Sizes& output_sizes,
    const Geometry& geometry,
    const char* call) {
  check_type(gradient, call);
  if (is_sample(gradient)) {
    return at::empty(output_sizes, gradient.options());
  }
  const auto space = geometry.space();
  const at::IntArrayRef sizes(output_sizes);
  const auto kernel = weights.sizes().slice(2);
  auto padding = resolve_padding(geometry, sizes.slice(2), kernel, call);
  leave_unreached(padding, geometry, sizes.slice(2), kernel, gradient.sizes().slice(2));
  Sizes padded_sizes = output_sizes;
  Sizes symmetric = padding.before;
  if (!padding.symmetric()) {
    for (const auto i : c10::irange(space)) {
      padded_sizes[i + 2] += padding.before[i] + padding.after[i];
    }
    symmetric.assign(space, 0);
  }
  const auto wide = widen(gradient);
  // Only the sizes of the source matter for its own gradient.
  const auto source = at::empty({1}, wide.options()).expand(padded_sizes);
  auto result = std::get<0>(at::convolution_backward(
      wide,
      source,
      widen(weights),
      /*bias_sizes=*/std::nullopt,
      geometry.stride,
      symmetric,
      geometry.dilation,
      /*transposed=*/false,
      Sizes(space),
      geometry.groups,
      {true, false, false}));
  if (!padding.symmetric()) {
    auto pairs = padding.pairs();
    for (auto& width : pairs) {
      width = -width;
    }
    result = at::constant_pad_nd(result, pairs);
  }
  return result.to(gradient.scalar_type());
}

at::Tensor weights_gradient(
    const at::Tensor& gradient,
    const at::Tensor& source,
    const Sizes& output_sizes,
    const Geometry& geometry,
    const char* call) {
  check_type(gradient, call);
  if (is_sample(gradient)) {
    return at::empty(output_sizes, gradient.options());
  }
  const auto space = geometry.space();
  const auto kernel = at::IntArrayRef(output_sizes).slice(2);
  auto padding = resolve_padding(geometry, source.sizes().slice(2), kernel, call);
  leave_unreached(padding, geometry, source.sizes().slice(2), kernel, gradient.sizes().slice(2));
  auto input = widen(source);
  Sizes symmetric = padding.before;
  if (!padding.symmetric()) {
    input = at::constant_pad_nd(input, padding.pairs());
    symmetric.assign(space, 0);
  }
  const auto weights = at::empty(output_sizes, input.options());
  return std::get<1>(at::convolution_backward(
                         widen(gradient),
                         input,
                         weights,
                         /*bias_sizes=*/std::nullopt,
                         geometry.stride,
                         symmetric,
                         geometry.dilation,
                         /*transposed=*/false,
                         Sizes(space),
                         geometry.groups,
                         {false, true, false}))
      .to(gradient.scalar_type());
}

Geometry geometry_of(MPSGraphConvolution2DOpDescriptor* descriptor) {
  Geometry geometry;
  geometry.stride = {(int64_t)descriptor.strideInY, (int64_t)descriptor.strideInX};
  geometry.dilation = {(int64_t)descriptor.dilationRateInY, (int64_t)descriptor.dilationRateInX};
  geometry.padding_before = {(int64_t)descriptor.paddingTop, (int64_t)descriptor.paddingLeft};
  geometry.padding_after = {(int64_t)descriptor.paddingBottom, (int64_t)descriptor.paddingRight};
  geometry.padding_style = descriptor.paddingStyle;
  geometry.groups = (int64_t)descriptor.groups;
  geometry.data_layout = descriptor.dataLayout;
  geometry.weights_layout = descriptor.weightsLayout;
  return geometry;
}

Geometry geometry_of(MPSGraphConvolution3DOpDescriptor* descriptor) {
  Geometry geometry;
  geometry.stride = {(int64_t)descriptor.strideInZ, (int64_t)descriptor.strideInY, (int64_t)descriptor.strideInX};
  geometry.dilation = {
      (int64_t)descriptor.dilationRateInZ, (int64_t)descriptor.dilationRateInY, (int64_t)descriptor.dilationRateInX};
  geometry.padding_before = {
      (int64_t)descriptor.paddingFront, (int64_t)descriptor.paddingTop, (int64_t)descriptor.paddingLeft};
  geometry.padding_after = {
      (int64_t)descriptor.paddingBack, (int64_t)descriptor.paddingBottom, (int64_t)descriptor.paddingRight};
  geometry.padding_style = descriptor.paddingStyle;
  geometry.groups = (int64_t)descriptor.groups;
  geometry.data_layout = descriptor.dataLayout;
  geometry.weights_layout = descriptor.weightsLayout;
  return geometry;
}

void check_rank(const at::Tensor& tensor, const Geometry& geometry, const char* what, const char* call) {
  if (tensor.dim() != static_cast<int64_t>(geometry.space()) + 2) {
    violation(
        "%s: the %s has rank %ld, and a convolution over %zu dimensions takes rank %zu",
        call,
        what,
        (long)tensor.dim(),
        geometry.space(),
        geometry.space() + 2);
  }
}

MPSGraphTensor* add_forward(
    MPSGraph* graph,
    MPSGraphTensor* source,
    MPSGraphTensor* weights,
    const Geometry& geometry,
    NSString* name,
    const char* call) {
  const auto data = data_permutation(geometry.data_layout, call);
  const auto kernel = weights_permutation(geometry.weights_layout, call);
  return add_operation(
      graph,
      "convolution",
      {source, weights},
      [=](const Tensors& inputs) {
        check_rank(inputs[0], geometry, "source", call);
        check_rank(inputs[1], geometry, "weights tensor", call);
        return from_aten_layout(
            forward(to_aten_layout(inputs[0], data), to_aten_layout(inputs[1], kernel), geometry, call), data);
      },
      name,
      /*fused=*/true);
}

MPSGraphTensor* add_data_gradient(
    MPSGraph* graph,
    MPSGraphTensor* gradient,
    MPSGraphTensor* weights,
    const Sizes& output_sizes,
    const Geometry& geometry,
    NSString* name,
    const char* call) {
  const auto data = data_permutation(geometry.data_layout, call);
  const auto kernel = weights_permutation(geometry.weights_layout, call);
  return add_operation(
      graph,
      "convolution data gradient",
      {gradient, weights},
      [=](const Tensors& inputs) {
        check_rank(inputs[0], geometry, "gradient", call);
        check_rank(inputs[1], geometry, "weights tensor", call);
        return from_aten_layout(
            data_gradient(
                to_aten_layout(inputs[0], data),
                to_aten_layout(inputs[1], kernel),
                permuted(output_sizes, data),
                geometry,
                call),
            data);
      },
      name,
      /*fused=*/true);
}

MPSGraphTensor* add_weights_gradient(
    MPSGraph* graph,
    MPSGraphTensor* gradient,
    MPSGraphTensor* source,
    const Sizes& output_sizes,
    const Geometry& geometry,
    NSString* name,
    const char* call) {
  const auto data = data_permutation(geometry.data_layout, call);
  const auto kernel = weights_permutation(geometry.weights_layout, call);
  return add_operation(
      graph,
      "convolution weights gradient",
      {gradient, source},
      [=](const Tensors& inputs) {
        check_rank(inputs[0], geometry, "gradient", call);
        check_rank(inputs[1], geometry, "source", call);
        return from_aten_layout(
            weights_gradient(
                to_aten_layout(inputs[0], data),
                to_aten_layout(inputs[1], data),
                permuted(output_sizes, kernel),
                geometry,
                call),
            kernel);
      },
      name);
}

// A depthwise convolution looks at the last four dimensions of its operands:
// one of them, the same for data and weights, holds the channels, and the
// others are depth, height and width. What comes before is the batch.
struct DepthwiseLayout {
  int64_t channel; // counted from the end: -4 … -1

  at::Tensor data_to_aten(const at::Tensor& tensor) const {
    auto tile = tensor.dim() == 4 ? tensor.unsqueeze(0) : tensor.flatten(0, tensor.dim() - 5);
    return tile.movedim(channel, 1);
  }

  at::Tensor data_from_aten(const at::Tensor& tensor, at::IntArrayRef like) const {
    auto tile = tensor.movedim(1, channel);
    if (like.size() == 4) {
      return tile.squeeze(0);
    }
    Sizes sizes(like.begin(), like.end() - 4);
    sizes.insert(sizes.end(), tile.sizes().begin() + 1, tile.sizes().end());
    return tile.reshape(sizes);
  }

  at::Tensor weights_to_aten(const at::Tensor& tensor) const {
    return tensor.movedim(channel, 0).unsqueeze(1);
  }

  at::Tensor weights_from_aten(const at::Tensor& tensor) const {
    return tensor.squeeze(1).movedim(0, channel);
  }
};

Geometry geometry_of(MPSGraphDepthwiseConvolution3DOpDescriptor* descriptor, const char* call) {
  Geometry geometry;
  geometry.stride = to_sizes(descriptor.strides);
  geometry.dilation = to_sizes(descriptor.dilationRates);
  const auto padding = to_sizes(descriptor.paddingValues);
  if (geometry.stride.size() != 3 || geometry.dilation.size() != 3 || padding.size() != 6) {
    violation("%s: three strides, three dilation rates and six padding values are needed", call);
  }
  geometry.padding_before = {padding[0], padding[2], padding[4]};
  geometry.padding_after = {padding[1], padding[3], padding[5]};
  geometry.padding_style = descriptor.paddingStyle;
  return geometry;
}

DepthwiseLayout layout_of(MPSGraphDepthwiseConvolution3DOpDescriptor* descriptor, const char* call) {
  const int64_t channel = descriptor.channelDimensionIndex;
  if (channel < -4 || channel > -1) {
    violation("%s: channelDimensionIndex %ld is outside of -4 … -1", call, (long)channel);
  }
  return {channel};
}

void check_depthwise_rank(const at::Tensor& data, const at::Tensor& weights, const char* call) {
  if (data.dim() < 4 || weights.dim() != 4) {
    violation(
        "%s: the data have rank %ld and the weights rank %ld; at least 4 and exactly 4 are needed",
        call,
        (long)data.dim(),
        (long)weights.dim());
  }
}

// A kernel of depth one does not mix slices: they are a batch of images, for
// which ATen's kernels are much faster than for volumes.
bool is_flat(const Geometry& geometry, int64_t kernel_depth) {
  return kernel_depth == 1 && geometry.stride[0] == 1 && geometry.padding_style == MPSGraphPaddingStyleExplicit &&
      geometry.padding_before[0] == 0 && geometry.padding_after[0] == 0;
}

Geometry flattened(Geometry geometry) {
  for (auto* sizes : {&geometry.stride, &geometry.dilation, &geometry.padding_before, &geometry.padding_after}) {
    sizes->erase(sizes->begin());
  }
  return geometry;
}

// [N, C, D, H, W] to [N·D, C, H, W] and back.
at::Tensor slices(const at::Tensor& volume) {
  return volume.movedim(2, 1).flatten(0, 1);
}

at::Tensor volumes(const at::Tensor& images, int64_t batch) {
  return images.unflatten(0, {batch, images.size(0) / std::max<int64_t>(batch, 1)}).movedim(1, 2);
}

at::Tensor depthwise_forward(const at::Tensor& source, const at::Tensor& weights, Geometry geometry, const char* call) {
  geometry.groups = source.size(1);
  if (!is_flat(geometry, weights.size(2))) {
    return forward(source, weights, geometry, call);
  }
  return volumes(forward(slices(source), weights.squeeze(2), flattened(geometry), call), source.size(0));
}

at::Tensor depthwise_data_gradient(
    const at::Tensor& gradient,
    const at::Tensor& weights,
    const Sizes& sizes,
    Geometry geometry,
    const char* call) {
  geometry.groups = sizes[1];
  if (!is_flat(geometry, weights.size(2))) {
    return data_gradient(gradient, weights, sizes, geometry, call);
  }
  const Sizes image_sizes{sizes[0] * sizes[2], sizes[1], sizes[3], sizes[4]};
  return volumes(
      data_gradient(slices(gradient), weights.squeeze(2), image_sizes, flattened(geometry), call), sizes[0]);
}

at::Tensor depthwise_weights_gradient(
    const at::Tensor& gradient,
    const at::Tensor& source,
    const Sizes& sizes,
    Geometry geometry,
    const char* call) {
  geometry.groups = source.size(1);
  if (!is_flat(geometry, sizes[2])) {
    return weights_gradient(gradient, source, sizes, geometry, call);
  }
  const Sizes image_sizes{sizes[0], sizes[1], sizes[3], sizes[4]};
  return weights_gradient(slices(gradient), slices(source), image_sizes, flattened(geometry), call).unsqueeze(2);
}

Sizes sizes_of(const at::Tensor& tensor) {
  return tensor.sizes().vec();
}

// The sizes that a tensor of these sizes has after a change of layout.
template <typename Function>
Sizes sizes_after(const Sizes& sizes, const Function& function) {
  return sizes_of(function(at::empty(sizes, at::TensorOptions().device(at::kMeta))));
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphConvolutionOps)

- (MPSGraphTensor*)convolution2DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weightsTensor
                                      descriptor:(MPSGraphConvolution2DOpDescriptor*)descriptor
                                            name:(NSString*)name {
  COUNT_CALL();
  return add_forward(self, source, weightsTensor, geometry_of(descriptor), name, __func__);
}

- (MPSGraphTensor*)convolution2DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                         weightsTensor:(MPSGraphTensor*)weightsTensor
                                                           outputShape:(MPSShape*)outputShape
                                          forwardConvolutionDescriptor:
                                              (MPSGraphConvolution2DOpDescriptor*)forwardConvolutionDescriptor
                                                                  name:(NSString*)name {
  COUNT_CALL();
  return add_data_gradient(
      self,
      incomingGradient,
      weightsTensor,
      to_sizes(outputShape),
      geometry_of(forwardConvolutionDescriptor),
      name,
      __func__);
}

- (MPSGraphTensor*)convolution2DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                                              outputShape:(MPSShape*)outputShape
                                             forwardConvolutionDescriptor:
                                                 (MPSGraphConvolution2DOpDescriptor*)forwardConvolutionDescriptor
                                                                     name:(NSString*)name {
  COUNT_CALL();
  return add_weights_gradient(
      self,
      incomingGradient,
      sourceTensor,
      to_sizes(outputShape),
      geometry_of(forwardConvolutionDescriptor),
      name,
      __func__);
}

@end

@implementation MPSGraph (MPSGraphConvolution3DOps)

- (MPSGraphTensor*)convolution3DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weightsTensor
                                      descriptor:(MPSGraphConvolution3DOpDescriptor*)descriptor
                                            name:(NSString*)name {
  COUNT_CALL();
  return add_forward(self, source, weightsTensor, geometry_of(descriptor), name, __func__);
}

- (MPSGraphTensor*)convolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                         weightsTensor:(MPSGraphTensor*)weightsTensor
                                                           outputShape:(MPSShape*)outputShape
                                          forwardConvolutionDescriptor:
                                              (MPSGraphConvolution3DOpDescriptor*)forwardConvolutionDescriptor
                                                                  name:(NSString*)name {
  COUNT_CALL();
  return add_data_gradient(
      self,
      incomingGradient,
      weightsTensor,
      to_sizes(outputShape),
      geometry_of(forwardConvolutionDescriptor),
      name,
      __func__);
}

- (MPSGraphTensor*)convolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                                              outputShape:(MPSShape*)outputShape
                                             forwardConvolutionDescriptor:
                                                 (MPSGraphConvolution3DOpDescriptor*)forwardConvolutionDescriptor
                                                                     name:(NSString*)name {
  COUNT_CALL();
  return add_weights_gradient(
      self,
      incomingGradient,
      sourceTensor,
      to_sizes(outputShape),
      geometry_of(forwardConvolutionDescriptor),
      name,
      __func__);
}

@end

@implementation MPSGraph (MPSGraphDepthwiseConvolutionOps)

- (MPSGraphTensor*)depthwiseConvolution3DWithSourceTensor:(MPSGraphTensor*)source
                                            weightsTensor:(MPSGraphTensor*)weightsTensor
                                               descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  const char* call = __func__;
  const auto geometry = geometry_of(descriptor, call);
  const auto layout = layout_of(descriptor, call);
  return add_operation(
      self,
      "depthwise convolution",
      {source, weightsTensor},
      [=](const Tensors& inputs) {
        check_depthwise_rank(inputs[0], inputs[1], call);
        const auto result = depthwise_forward(
            layout.data_to_aten(inputs[0]), layout.weights_to_aten(inputs[1]), geometry, call);
        return layout.data_from_aten(result, inputs[0].sizes());
      },
      name,
      /*fused=*/true);
}

- (MPSGraphTensor*)depthwiseConvolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                                  weightsTensor:(MPSGraphTensor*)weightsTensor
                                                                    outputShape:(MPSShape*)outputShape
                                                                     descriptor:
                                                                         (MPSGraphDepthwiseConvolution3DOpDescriptor*)
                                                                             descriptor
                                                                           name:(NSString*)name {
  COUNT_CALL();
  const char* call = __func__;
  const auto geometry = geometry_of(descriptor, call);
  const auto layout = layout_of(descriptor, call);
  const auto output_sizes = to_sizes(outputShape);
  return add_operation(
      self,
      "depthwise convolution data gradient",
      {incomingGradient, weightsTensor},
      [=](const Tensors& inputs) {
        check_depthwise_rank(inputs[0], inputs[1], call);
        const auto sizes =
            sizes_after(output_sizes, [&](const at::Tensor& tensor) { return layout.data_to_aten(tensor); });
        const auto result = depthwise_data_gradient(
            layout.data_to_aten(inputs[0]), layout.weights_to_aten(inputs[1]), sizes, geometry, call);
        return layout.data_from_aten(result, output_sizes);
      },
      name,
      /*fused=*/true);
}

- (MPSGraphTensor*)depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                                      sourceTensor:(MPSGraphTensor*)sourceTensor
                                                                       outputShape:(MPSShape*)outputShape
                                                                        descriptor:
                                                                            (MPSGraphDepthwiseConvolution3DOpDescriptor*)
                                                                                descriptor
                                                                              name:(NSString*)name {
  COUNT_CALL();
  const char* call = __func__;
  const auto geometry = geometry_of(descriptor, call);
  const auto layout = layout_of(descriptor, call);
  const auto output_sizes = to_sizes(outputShape);
  return add_operation(
      self,
      "depthwise convolution weights gradient",
      {incomingGradient, sourceTensor},
      [=](const Tensors& inputs) {
        const auto sizes =
            sizes_after(output_sizes, [&](const at::Tensor& tensor) { return layout.weights_to_aten(tensor); });
        const auto result = depthwise_weights_gradient(
            layout.data_to_aten(inputs[0]), layout.data_to_aten(inputs[1]), sizes, geometry, call);
        return layout.weights_from_aten(result);
      },
      name);
}

@end
