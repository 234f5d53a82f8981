// Convolutions and their gradients. Each operation brings its operands into
// ATen's layout (batch, channels, space; output, input, space), computes, and
// brings the result back into the layout that the descriptor names.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "graph/windows.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

namespace mps_simulator::graph {
namespace {

struct Geometry : WindowGeometry {
  int64_t groups = 1;
  MPSGraphTensorNamedDataLayout data_layout = MPSGraphTensorNamedDataLayoutNCHW;
  MPSGraphTensorNamedDataLayout weights_layout = MPSGraphTensorNamedDataLayoutOIHW;
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

  Padding(const Geometry& geometry, at::IntArrayRef source, at::IntArrayRef kernel, const char* call) {
    for (const auto i : c10::irange(geometry.space())) {
      const auto padding = geometry.padding(i, source[i], kernel[i], call);
      before.push_back(padding.before);
      after.push_back(padding.after);
    }
  }

  // A source may be larger than what the windows of a gradient of this extent
  // reach (a transposed convolution with output padding). Negative padding leaves
  // the rest away, which ATen's kernels do not.
  void leave_unreached(const Geometry& geometry,
                       at::IntArrayRef source,
                       at::IntArrayRef kernel,
                       at::IntArrayRef gradient) {
    for (const auto i : c10::irange(geometry.space())) {
      const auto reached = (gradient[i] - 1) * geometry.stride[i] + geometry.reach(i, kernel[i]);
      if (before[i] + source[i] + after[i] - reached >= geometry.stride[i]) {
        after[i] = reached - before[i] - source[i];
      }
    }
  }

  // ATen's kernels pad both sides alike; all other padding is done around them.
  Sizes by_kernel() const {
    return before == after ? before : Sizes(before.size());
  }

  at::Tensor add_to(const at::Tensor& source) const {
    return before == after ? source : at::constant_pad_nd(source, pairs(1));
  }

  at::Tensor remove_from(const at::Tensor& gradient) const {
    return before == after ? gradient : at::constant_pad_nd(gradient, pairs(-1));
  }

  // Of a source of these sizes, after add_to().
  Sizes add_to(Sizes sizes) const {
    for (size_t i = 0; before != after && i < before.size(); ++i) {
      sizes[i + 2] += before[i] + after[i];
    }
    return sizes;
  }

 private:
  // In the order of constant_pad_nd: innermost dimension first.
  Sizes pairs(int64_t sign) const {
    Sizes result;
    for (size_t i = before.size(); i-- > 0;) {
      result.push_back(sign * before[i]);
      result.push_back(sign * after[i]);
    }
    return result;
  }
};

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
  const Padding padding(geometry, source.sizes().slice(2), kernel, call);
  if (is_sample(source)) {
    Sizes sizes{source.size(0), weights.size(0)};
    for (const auto i : c10::irange(space)) {
      const auto extent = source.size(static_cast<int64_t>(i) + 2) + padding.before[i] + padding.after[i];
      sizes.push_back((extent - geometry.reach(i, kernel[i])) / geometry.stride[i] + 1);
    }
    return at::empty(sizes, source.options());
  }
  return at::convolution(padding.add_to(widen(source)),
                         widen(weights),
                         /*bias=*/{},
                         geometry.stride,
                         padding.by_kernel(),
                         geometry.dilation,
                         /*transposed=*/false,
                         Sizes(space),
                         geometry.groups)
      .to(source.scalar_type());
}

// The gradients of the source, with its padding, and of the weights.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient,
                                                        const at::Tensor& source,
                                                        const at::Tensor& weights,
                                                        const Geometry& geometry,
                                                        const Padding& padding,
                                                        std::array<bool, 3> wanted) {
  return at::convolution_backward(gradient,
                                  source,
                                  weights,
                                  /*bias_sizes=*/std::nullopt,
                                  geometry.stride,
                                  padding.by_kernel(),
                                  geometry.dilation,
                                  /*transposed=*/false,
                                  Sizes(geometry.space()),
                                  geometry.groups,
                                  wanted);
}

at::Tensor data_gradient(const at::Tensor& gradient,
                         const at::Tensor& weights,
                         const Sizes& output_sizes,
                         const Geometry& geometry,
                         const char* call) {
  check_type(gradient, call);
  if (is_sample(gradient)) {
    return at::empty(output_sizes, gradient.options());
  }
  const auto space = at::IntArrayRef(output_sizes).slice(2);
  const auto kernel = weights.sizes().slice(2);
  Padding padding(geometry, space, kernel, call);
  padding.leave_unreached(geometry, space, kernel, gradient.sizes().slice(2));
  const auto wide = widen(gradient);
  // Only the sizes of the source matter for its own gradient.
  const auto source = at::empty({1}, wide.options()).expand(padding.add_to(output_sizes));
  const auto result = std::get<0>(backward(wide, source, widen(weights), geometry, padding, {true, false, false}));
  return padding.remove_from(result).to(gradient.scalar_type());
}

at::Tensor weights_gradient(const at::Tensor& gradient,
                            const at::Tensor& source,
                            const Sizes& output_sizes,
                            const Geometry& geometry,
                            const char* call) {
  check_type(gradient, call);
  if (is_sample(gradient)) {
    return at::empty(output_sizes, gradient.options());
  }
  const auto space = source.sizes().slice(2);
  const auto kernel = at::IntArrayRef(output_sizes).slice(2);
  Padding padding(geometry, space, kernel, call);
  padding.leave_unreached(geometry, space, kernel, gradient.sizes().slice(2));
  const auto input = padding.add_to(widen(source));
  // Only the sizes of the weights matter for their own gradient.
  const auto weights = at::empty(output_sizes, input.options());
  return std::get<1>(backward(widen(gradient), input, weights, geometry, padding, {false, true, false}))
      .to(gradient.scalar_type());
}

template <typename Descriptor>
Geometry with_layouts(Geometry geometry, Descriptor* descriptor) {
  geometry.groups = (int64_t)descriptor.groups;
  geometry.data_layout = descriptor.dataLayout;
  geometry.weights_layout = descriptor.weightsLayout;
  return geometry;
}

Geometry geometry_of(MPSGraphConvolution2DOpDescriptor* descriptor) {
  Geometry geometry;
  read_plane(descriptor, geometry);
  return with_layouts(geometry, descriptor);
}

Geometry geometry_of(MPSGraphConvolution3DOpDescriptor* descriptor) {
  Geometry geometry;
  read_volume(descriptor, geometry);
  return with_layouts(geometry, descriptor);
}

void check_rank(const at::Tensor& tensor, const Geometry& geometry, const char* what, const char* call) {
  if (tensor.dim() != static_cast<int64_t>(geometry.space()) + 2) {
    violation("%s: the %s has rank %ld, and a convolution over %zu dimensions takes rank %zu",
              call,
              what,
              (long)tensor.dim(),
              geometry.space(),
              geometry.space() + 2);
  }
}

// What an operand is called in errors, and how it comes into ATen's layout.
struct Role {
  const char* name;
  Sizes permutation;
};

Role data_role(const char* name, const Geometry& geometry, const char* call) {
  return {name, data_permutation(geometry.data_layout, call)};
}

Role weights_role(const Geometry& geometry, const char* call) {
  return {"weights tensor", weights_permutation(geometry.weights_layout, call)};
}

// `compute` sees ATen's layouts; its result gets the layout of `result`.
template <typename Compute>
MPSGraphTensor* add_convolution(MPSGraph* graph,
                                const char* kind,
                                std::vector<MPSGraphTensor*> operands,
                                const std::array<Role, 2>& roles,
                                const Sizes& result,
                                const Geometry& geometry,
                                const char* call,
                                NSString* name,
                                bool fused,
                                Compute compute) {
  return add_operation(
      graph,
      kind,
      std::move(operands),
      name,
      [=](const Tensors& inputs) {
        check_rank(inputs[0], geometry, roles[0].name, call);
        check_rank(inputs[1], geometry, roles[1].name, call);
        const auto first = to_aten_layout(inputs[0], roles[0].permutation);
        const auto second = to_aten_layout(inputs[1], roles[1].permutation);
        return from_aten_layout(compute(first, second), result);
      },
      fused);
}

// Of two dimensions or of three, as the geometry has them.

MPSGraphTensor* add_forward(MPSGraph* graph,
                            MPSGraphTensor* source,
                            MPSGraphTensor* weights,
                            const Geometry& geometry,
                            NSString* name,
                            const char* call) {
  const auto data = data_role("source", geometry, call);
  return add_convolution(
      graph,
      "convolution",
      {source, weights},
      {data, weights_role(geometry, call)},
      data.permutation,
      geometry,
      call,
      name,
      /*fused=*/true,
      [=](const at::Tensor& source, const at::Tensor& weights) { return forward(source, weights, geometry, call); });
}

MPSGraphTensor* add_data_gradient(MPSGraph* graph,
                                  MPSGraphTensor* gradient,
                                  MPSGraphTensor* weights,
                                  MPSShape* output_shape,
                                  const Geometry& geometry,
                                  NSString* name,
                                  const char* call) {
  const auto data = data_role("gradient", geometry, call);
  const auto sizes = permuted(to_sizes(output_shape), data.permutation);
  return add_convolution(graph,
                         "convolution data gradient",
                         {gradient, weights},
                         {data, weights_role(geometry, call)},
                         data.permutation,
                         geometry,
                         call,
                         name,
                         /*fused=*/true,
                         [=](const at::Tensor& gradient, const at::Tensor& weights) {
                           return data_gradient(gradient, weights, sizes, geometry, call);
                         });
}

MPSGraphTensor* add_weights_gradient(MPSGraph* graph,
                                     MPSGraphTensor* gradient,
                                     MPSGraphTensor* source,
                                     MPSShape* output_shape,
                                     const Geometry& geometry,
                                     NSString* name,
                                     const char* call) {
  const auto weights = weights_role(geometry, call);
  const auto sizes = permuted(to_sizes(output_shape), weights.permutation);
  return add_convolution(graph,
                         "convolution weights gradient",
                         {gradient, source},
                         {data_role("gradient", geometry, call), data_role("source", geometry, call)},
                         weights.permutation,
                         geometry,
                         call,
                         name,
                         /*fused=*/false,
                         [=](const at::Tensor& gradient, const at::Tensor& source) {
                           return weights_gradient(gradient, source, sizes, geometry, call);
                         });
}

// A depthwise convolution looks at the last four dimensions of its operands:
// one of them, the same for data and weights, holds the channels, and the
// others are depth, height and width. What comes before is the batch.
struct Depthwise {
  Geometry geometry;
  int64_t channel; // counted from the end: -4 … -1
  const char* call;

  Depthwise(MPSGraphDepthwiseConvolution3DOpDescriptor* descriptor, const char* call)
      : channel(descriptor.channelDimensionIndex), call(call) {
    geometry.stride = to_sizes(descriptor.strides);
    geometry.dilation = to_sizes(descriptor.dilationRates);
    const auto padding = to_sizes(descriptor.paddingValues);
    if (geometry.stride.size() != 3 || geometry.dilation.size() != 3 || padding.size() != 6) {
      violation("%s: three strides, three dilation rates and six padding values are needed", call);
    }
    geometry.padding_before = {padding[0], padding[2], padding[4]};
    geometry.padding_after = {padding[1], padding[3], padding[5]};
    geometry.padding_style = descriptor.paddingStyle;
    if (channel < -4 || channel > -1) {
      violation("%s: channelDimensionIndex %ld is outside of -4 … -1", call, (long)channel);
    }
  }

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

  // One group per channel.
  Geometry grouped(int64_t channels) const {
    auto result = geometry;
    result.groups = channels;
    return result;
  }
};

void check_depthwise_rank(const at::Tensor& data, const at::Tensor& weights, const char* call) {
  if (data.dim() < 4 || weights.dim() != 4) {
    violation("%s: the data have rank %ld and the weights rank %ld; at least 4 and exactly 4 are needed",
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

// The sizes that a tensor of these sizes has after a change of layout.
template <typename Function>
Sizes sizes_after(const Sizes& sizes, const Function& function) {
  return function(at::empty(sizes, at::TensorOptions().device(at::kMeta))).sizes().vec();
}

at::Tensor depthwise_forward(const at::Tensor& data, const at::Tensor& kernel, const Depthwise& depthwise) {
  check_depthwise_rank(data, kernel, depthwise.call);
  const auto source = depthwise.data_to_aten(data);
  const auto weights = depthwise.weights_to_aten(kernel);
  const auto geometry = depthwise.grouped(source.size(1));
  const auto result = is_flat(geometry, weights.size(2))
      ? volumes(forward(slices(source), weights.squeeze(2), flattened(geometry), depthwise.call), source.size(0))
      : forward(source, weights, geometry, depthwise.call);
  return depthwise.data_from_aten(result, data.sizes());
}

at::Tensor depthwise_data_gradient(const at::Tensor& incoming,
                                   const at::Tensor& kernel,
                                   const Sizes& output_sizes,
                                   const Depthwise& depthwise) {
  check_depthwise_rank(incoming, kernel, depthwise.call);
  const auto gradient = depthwise.data_to_aten(incoming);
  const auto weights = depthwise.weights_to_aten(kernel);
  const auto sizes =
      sizes_after(output_sizes, [&](const at::Tensor& tensor) { return depthwise.data_to_aten(tensor); });
  const auto geometry = depthwise.grouped(sizes[1]);
  const Sizes image_sizes{sizes[0] * sizes[2], sizes[1], sizes[3], sizes[4]};
  const auto result = is_flat(geometry, weights.size(2))
      ? volumes(data_gradient(slices(gradient), weights.squeeze(2), image_sizes, flattened(geometry), depthwise.call),
                sizes[0])
      : data_gradient(gradient, weights, sizes, geometry, depthwise.call);
  return depthwise.data_from_aten(result, output_sizes);
}

at::Tensor depthwise_weights_gradient(const at::Tensor& incoming,
                                      const at::Tensor& data,
                                      const Sizes& output_sizes,
                                      const Depthwise& depthwise) {
  const auto gradient = depthwise.data_to_aten(incoming);
  const auto source = depthwise.data_to_aten(data);
  const auto sizes =
      sizes_after(output_sizes, [&](const at::Tensor& tensor) { return depthwise.weights_to_aten(tensor); });
  const auto geometry = depthwise.grouped(source.size(1));
  const Sizes image_sizes{sizes[0], sizes[1], sizes[3], sizes[4]};
  const auto result = is_flat(geometry, sizes[2])
      ? weights_gradient(slices(gradient), slices(source), image_sizes, flattened(geometry), depthwise.call)
            .unsqueeze(2)
      : weights_gradient(gradient, source, sizes, geometry, depthwise.call);
  return depthwise.weights_from_aten(result);
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

#define CONVOLUTION_METHODS(dimensions)                                                                             \
  -(MPSGraphTensor*)convolution##dimensions##WithSourceTensor : (MPSGraphTensor*)source                             \
      weightsTensor : (MPSGraphTensor*)weights                                                                      \
      descriptor : (MPSGraphConvolution##dimensions##OpDescriptor*)descriptor                                       \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add_forward(self, source, weights, geometry_of(descriptor), name, __func__);                             \
  }                                                                                                                 \
  -(MPSGraphTensor*)convolution##dimensions##DataGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient     \
      weightsTensor : (MPSGraphTensor*)weights                                                                      \
      outputShape : (MPSShape*)shape                                                                                \
      forwardConvolutionDescriptor : (MPSGraphConvolution##dimensions##OpDescriptor*)descriptor                     \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add_data_gradient(self, gradient, weights, shape, geometry_of(descriptor), name, __func__);              \
  }                                                                                                                 \
  -(MPSGraphTensor*)convolution##dimensions##WeightsGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient  \
      sourceTensor : (MPSGraphTensor*)source                                                                        \
      outputShape : (MPSShape*)shape                                                                                \
      forwardConvolutionDescriptor : (MPSGraphConvolution##dimensions##OpDescriptor*)descriptor                     \
      name : (NSString*)name {                                                                                      \
    COUNT_CALL();                                                                                                   \
    return add_weights_gradient(self, gradient, source, shape, geometry_of(descriptor), name, __func__);            \
  }

@implementation MPSGraph (MPSGraphConvolutionOps)

CONVOLUTION_METHODS(2D)
CONVOLUTION_METHODS(3D)

@end

@implementation MPSGraph (MPSGraphDepthwiseConvolutionOps)

- (MPSGraphTensor*)depthwiseConvolution3DWithSourceTensor:(MPSGraphTensor*)source
                                            weightsTensor:(MPSGraphTensor*)weights
                                               descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                     name:(NSString*)name {
  COUNT_CALL();
  const Depthwise depthwise(descriptor, __func__);
  return add_fused_operation(self, "depthwise convolution", {source, weights}, name, [=](const Tensors& inputs) {
    return depthwise_forward(inputs[0], inputs[1], depthwise);
  });
}

- (MPSGraphTensor*)
    depthwiseConvolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                   weightsTensor:(MPSGraphTensor*)weights
                                                     outputShape:(MPSShape*)shape
                                                      descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                            name:(NSString*)name {
  COUNT_CALL();
  const Depthwise depthwise(descriptor, __func__);
  const auto sizes = to_sizes(shape);
  return add_fused_operation(
      self, "depthwise convolution data gradient", {gradient, weights}, name, [=](const Tensors& inputs) {
        return depthwise_data_gradient(inputs[0], inputs[1], sizes, depthwise);
      });
}

- (MPSGraphTensor*)
    depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                       sourceTensor:(MPSGraphTensor*)source
                                                        outputShape:(MPSShape*)shape
                                                         descriptor:
                                                             (MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                               name:(NSString*)name {
  COUNT_CALL();
  const Depthwise depthwise(descriptor, __func__);
  const auto sizes = to_sizes(shape);
  return add_operation(
      self, "depthwise convolution weights gradient", {gradient, source}, name, [=](const Tensors& inputs) {
        return depthwise_weights_gradient(inputs[0], inputs[1], sizes, depthwise);
      });
}

@end
