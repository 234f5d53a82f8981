// Convolutions and their gradients, in ATen's layout of weights (output, input, space).
#include "graph/elementwise.h"
#include "graph/windows.h"

#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

struct Convolution : Windows {
  int64_t groups; // 0: one for each channel, and the weights have the order (input, output, space)
  bool channels_last = false;

  at::Tensor operator()(const at::Tensor& source, const at::Tensor& weights) const {
    TORCH_CHECK(source.is_floating_point(), "a convolution takes floating-point tensors, not ", source.scalar_type());
    const auto data = channels_last ? source.movedim(-1, 1) : source;
    const auto kernel = groups ? weights : weights.transpose(0, 1);
    const auto count = groups ? groups : data.size(1);
    const auto result = is_sample(data)
        ? at::empty(at::native::conv_output_size(data.sizes(), kernel.sizes(), before, stride, dilation),
                    data.options())
        : at::convolution(
              widen(data), widen(kernel), /*bias=*/{}, stride, before, dilation, false, Sizes(stride.size()), count);
    return (channels_last ? result.movedim(1, -1) : result).to(source.scalar_type());
  }
};

template <typename Descriptor>
Convolution convolution_of(Descriptor* descriptor, const char* method) {
  const auto layout = descriptor.dataLayout;
  const bool flat = layout == MPSGraphTensorNamedDataLayoutNCHW || layout == MPSGraphTensorNamedDataLayoutNHWC;
  const bool channels_last = layout == MPSGraphTensorNamedDataLayoutNHWC;
  const Convolution convolution{windows_of(descriptor), (int64_t)descriptor.groups, channels_last};
  if ((!flat && layout != MPSGraphTensorNamedDataLayoutNCDHW) || convolution.before != convolution.after ||
      descriptor.weightsLayout != (flat ? MPSGraphTensorNamedDataLayoutOIHW : MPSGraphTensorNamedDataLayoutOIDHW)) {
    unsupported("%s with this layout or with more padding on one side than on the other", method);
  }
  return convolution;
}

Convolution geometry_of(MPSGraphConvolution2DOpDescriptor* descriptor, const char* method) {
  return convolution_of(descriptor, method);
}

Convolution geometry_of(MPSGraphConvolution3DOpDescriptor* descriptor, const char* method) {
  auto result = convolution_of(descriptor, method);
  const auto add_depth = [](Sizes& sizes, NSUInteger value) { sizes.insert(sizes.begin(), (int64_t)value); };
  add_depth(result.stride, descriptor.strideInZ);
  add_depth(result.dilation, descriptor.dilationRateInZ);
  add_depth(result.before, descriptor.paddingFront);
  return result;
}

// Of images [N, C, H, W], whose batch is the depth of a kernel that has none, and of weights [1, C, H, W].
Convolution geometry_of(MPSGraphDepthwiseConvolution3DOpDescriptor* descriptor, const char* method) {
  const auto stride = to_sizes(descriptor.strides);
  const auto dilation = to_sizes(descriptor.dilationRates);
  const auto padding = to_sizes(descriptor.paddingValues);
  if (descriptor.channelDimensionIndex != -3 || stride.at(0) != 1 ||
      padding != Sizes{0, 0, padding.at(2), padding[2], padding.at(4), padding[4]}) {
    unsupported("%s over more than height and width, or with padding on one side", method);
  }
  return {{{stride.at(1), stride.at(2)}, {dilation.at(1), dilation.at(2)}, {padding[2], padding[4]}}, /*groups=*/0};
}

} // namespace

#define CONVOLUTION_METHODS(name_, kind, Descriptor, descriptor_name)                                            \
  -(MPSGraphTensor*)name_##WithSourceTensor : (MPSGraphTensor*)source weightsTensor                              \
      : (MPSGraphTensor*)weights descriptor : (Descriptor*)descriptor name : (NSString*)name {                   \
    const auto convolution = geometry_of(descriptor, __func__);                                                  \
    return add_fused_operation(self, kind, {source, weights}, name, [=](const Tensors& inputs) {                 \
      return convolution(inputs[0], inputs[1]);                                                                  \
    });                                                                                                          \
  }                                                                                                              \
  -(MPSGraphTensor*)name_##DataGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient weightsTensor      \
      : (MPSGraphTensor*)weights outputShape : (MPSShape*)shape descriptor_name : (Descriptor*)descriptor name   \
      : (NSString*)name {                                                                                        \
    const auto convolution = geometry_of(descriptor, __func__);                                                  \
    const auto expression = [=, sizes = to_sizes(shape)](const Tensors& inputs) {                                \
      const auto like = inputs[0].new_empty({1}).expand(sizes);                                                  \
      return gradient_of([&](const auto& source) { return convolution(source, inputs[1]); }, like, inputs[0]);   \
    };                                                                                                           \
    return add_fused_operation(self, kind " data gradient", {gradient, weights}, name, expression);              \
  }                                                                                                              \
  -(MPSGraphTensor*)name_##WeightsGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient sourceTensor    \
      : (MPSGraphTensor*)source outputShape : (MPSShape*)shape descriptor_name : (Descriptor*)descriptor name    \
      : (NSString*)name {                                                                                        \
    const auto convolution = geometry_of(descriptor, __func__);                                                  \
    const auto expression = [=, sizes = to_sizes(shape)](const Tensors& inputs) {                                \
      const auto like = inputs[0].new_empty({1}).expand(sizes);                                                  \
      return gradient_of([&](const auto& weights) { return convolution(inputs[1], weights); }, like, inputs[0]); \
    };                                                                                                           \
    return add_operation(self, kind " weights gradient", {gradient, source}, name, expression);                  \
  }

@implementation MPSGraph (ConvolutionOperations)

CONVOLUTION_METHODS(convolution2D, "convolution", MPSGraphConvolution2DOpDescriptor, forwardConvolutionDescriptor)
CONVOLUTION_METHODS(convolution3D, "convolution", MPSGraphConvolution3DOpDescriptor, forwardConvolutionDescriptor)
CONVOLUTION_METHODS(depthwiseConvolution3D,
                    "depthwise convolution",
                    MPSGraphDepthwiseConvolution3DOpDescriptor,
                    descriptor)

@end
