// Matrix products, inverses, band matrices and attention; Fourier transforms.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace mps_simulator::graph {
namespace {

at::Tensor product(const at::Tensor& left, const at::Tensor& right) {
  const auto type = at::promote_types(left.scalar_type(), right.scalar_type());
  const auto wide = computation_type(type);
  return at::matmul(left.to(wide), right.to(wide)).to(type);
}

// Keeps the diagonals from `lower` below to `upper` above the main one; a
// negative number keeps all of that side.
at::Tensor band(const at::Tensor& tensor, const at::Tensor& lower, const at::Tensor& upper) {
  const auto options = tensor.options().dtype(at::kLong);
  const auto row = at::arange(tensor.size(-2), options).unsqueeze(1);
  const auto column = at::arange(tensor.size(-1), options).unsqueeze(0);
  const auto keep_lower = lower.lt(0).logical_or((row - column).le(lower));
  const auto keep_upper = upper.lt(0).logical_or((column - row).le(upper));
  return at::where(keep_lower.logical_and(keep_upper), tensor, at::zeros({}, tensor.options()));
}

at::Tensor scalar_operand(const at::Tensor& tensor) {
  return tensor.reshape({}).to(at::kLong);
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphMatrixMultiplicationOps)

- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                         secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                    name:(NSString*)name {
  COUNT_CALL();
  check_same_type("matrix multiplication", {primaryTensor, secondaryTensor});
  return add_fused_operation(
      self, "matrix multiplication", {primaryTensor, secondaryTensor}, name, [](const Tensors& inputs) {
        return product(inputs[0], inputs[1]);
      });
}

@end

@implementation MPSGraph (MPSGraphLinearAlgebraOps)

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)numLower
                             numUpper:(NSInteger)numUpper
                                 name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "band part", {tensor}, name, [=](const Tensors& inputs) {
    const auto options = inputs[0].options().dtype(at::kLong);
    return band(inputs[0],
                at::full({}, static_cast<int64_t>(numLower), options),
                at::full({}, static_cast<int64_t>(numUpper), options));
  });
}

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                       numLowerTensor:(MPSGraphTensor*)numLowerTensor
                       numUpperTensor:(MPSGraphTensor*)numUpperTensor
                                 name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "band part", {tensor, numLowerTensor, numUpperTensor}, name, [](const Tensors& inputs) {
    return band(inputs[0], scalar_operand(inputs[1]), scalar_operand(inputs[2]));
  });
}

- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "inverse", {tensor}, name, [](const Tensors& inputs) {
    // Nothing on a GPU reports a singular matrix.
    return std::get<0>(at::linalg_inv_ex(widen(inputs[0]), /*check_errors=*/false)).to(inputs[0].scalar_type());
  });
}

@end

// Fourier transforms.

namespace mps_simulator::graph {
namespace {

using Axes = std::vector<int64_t>;

// ATen's code for "do not scale".
constexpr int64_t kUnscaled = 0;

struct Transform {
  Axes axes;
  bool inverse = false;
  MPSGraphFFTScalingMode scaling = MPSGraphFFTScalingModeNone;
  bool odd = false;
  const char* call = nullptr;

  Axes wrapped_axes(int64_t rank) const {
    if (axes.empty()) {
      violation("%s: no axes", call);
    }
    Axes result;
    for (const auto axis : axes) {
      result.push_back(wrap_axis(axis, rank));
    }
    return result;
  }

  // `sizes` is the shape of the signal, not of half of its spectrum.
  at::Tensor scaled(const at::Tensor& tensor, at::IntArrayRef sizes, const Axes& along) const {
    double volume = 1;
    for (const auto axis : along) {
      volume *= static_cast<double>(sizes[axis]);
    }
    switch (scaling) {
      case MPSGraphFFTScalingModeNone:
        return tensor;
      case MPSGraphFFTScalingModeSize:
        return tensor / volume;
      case MPSGraphFFTScalingModeUnitary:
        return tensor / std::sqrt(volume);
    }
    unsupported("%s with scaling mode %lu", call, (unsigned long)scaling);
  }
};

void check_complex(const at::Tensor& tensor, const Transform& transform) {
  if (!tensor.is_complex()) {
    violation("%s: the tensor is %s, not complex", transform.call, c10::toString(tensor.scalar_type()));
  }
}

at::Tensor complex_transform(const at::Tensor& tensor, const Transform& transform) {
  check_complex(tensor, transform);
  if (is_sample(tensor)) {
    return at::empty(tensor.sizes(), tensor.options());
  }
  const auto axes = transform.wrapped_axes(tensor.dim());
  const auto result = at::_fft_c2c(widen(tensor), axes, kUnscaled, /*forward=*/!transform.inverse);
  return transform.scaled(result, tensor.sizes(), axes).to(tensor.scalar_type());
}

at::Tensor real_transform(const at::Tensor& tensor, const Transform& transform) {
  if (!tensor.is_floating_point()) {
    violation("%s: the tensor is %s, not real", transform.call, c10::toString(tensor.scalar_type()));
  }
  const auto axes = transform.wrapped_axes(tensor.dim());
  const auto type = c10::toComplexType(tensor.scalar_type());
  if (is_sample(tensor)) {
    auto sizes = tensor.sizes().vec();
    sizes[axes.back()] = sizes[axes.back()] / 2 + 1;
    return at::empty(sizes, tensor.options().dtype(type));
  }
  auto result = at::_fft_r2c(widen(tensor), axes, kUnscaled, /*onesided=*/true);
  if (transform.inverse) {
    result = result.conj().resolve_conj();
  }
  return transform.scaled(result, tensor.sizes(), axes).to(type);
}

at::Tensor real_result_transform(const at::Tensor& tensor, const Transform& transform) {
  check_complex(tensor, transform);
  const auto axes = transform.wrapped_axes(tensor.dim());
  const auto type = c10::toRealValueType(tensor.scalar_type());
  auto sizes = tensor.sizes().vec();
  sizes[axes.back()] = 2 * (sizes[axes.back()] - 1) + (transform.odd ? 1 : 0);
  if (is_sample(tensor)) {
    return at::empty(sizes, tensor.options().dtype(type));
  }
  auto spectrum = widen(tensor);
  if (!transform.inverse) {
    spectrum = spectrum.conj().resolve_conj();
  }
  const auto result = at::_fft_c2r(spectrum, axes, kUnscaled, sizes[axes.back()]);
  return transform.scaled(result, sizes, axes).to(type);
}

MPSGraphTensor* add_transform(MPSGraph* graph,
                              const char* kind,
                              MPSGraphTensor* tensor,
                              NSArray<NSNumber*>* axes,
                              MPSGraphFFTDescriptor* descriptor,
                              NSString* name,
                              const char* call,
                              at::Tensor (*compute)(const at::Tensor&, const Transform&)) {
  Transform transform;
  transform.axes = to_sizes(axes);
  transform.inverse = descriptor.inverse;
  transform.scaling = descriptor.scalingMode;
  transform.odd = descriptor.roundToOddHermitean;
  transform.call = call;
  return add_operation(
      graph, kind, {tensor}, name, [=](const Tensors& inputs) { return compute(inputs[0], transform); });
}

} // namespace
} // namespace mps_simulator::graph

@implementation MPSGraph (MPSGraphFourierTransformOps)

- (MPSGraphTensor*)fastFourierTransformWithTensor:(MPSGraphTensor*)tensor
                                             axes:(NSArray<NSNumber*>*)axes
                                       descriptor:(MPSGraphFFTDescriptor*)descriptor
                                             name:(NSString*)name {
  COUNT_CALL();
  return add_transform(self, "Fourier transform", tensor, axes, descriptor, name, __func__, complex_transform);
}

- (MPSGraphTensor*)realToHermiteanFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString*)name {
  COUNT_CALL();
  return add_transform(
      self, "Fourier transform of a real tensor", tensor, axes, descriptor, name, __func__, real_transform);
}

- (MPSGraphTensor*)HermiteanToRealFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString*)name {
  COUNT_CALL();
  return add_transform(
      self, "Fourier transform to a real tensor", tensor, axes, descriptor, name, __func__, real_result_transform);
}

@end
