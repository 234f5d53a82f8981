// Matrix products, inverses and band matrices; Fourier transforms.
#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/error.h"

#include <ATen/ATen.h>

#include <cmath>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

// Keeps the diagonals from `lower` below to `upper` above the main one; a
// negative number keeps all of that side.
at::Tensor band(const at::Tensor& tensor, int64_t lower, int64_t upper) {
  const at::Tensor below = upper < 0 ? tensor : at::tril(tensor, upper);
  return lower < 0 ? below : at::triu(below, -lower);
}

} // namespace

@implementation MPSGraph (LinearAlgebraOperations)

- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primary
                                         secondaryTensor:(MPSGraphTensor*)secondary
                                                    name:(NSString*)name {
  check_same_type("matrix multiplication", {primary, secondary});
  return add_fused_operation(self, "matrix multiplication", {primary, secondary}, name, [](const Tensors& inputs) {
    return at::matmul(widen(inputs[0]), widen(inputs[1])).to(inputs[0].scalar_type());
  });
}

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)lower
                             numUpper:(NSInteger)upper
                                 name:(NSString*)name {
  return add_operation(
      self, "band part", {tensor}, name, [=](const Tensors& inputs) { return band(inputs[0], lower, upper); });
}

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                       numLowerTensor:(MPSGraphTensor*)lower
                       numUpperTensor:(MPSGraphTensor*)upper
                                 name:(NSString*)name {
  return add_alike_operation(self, "band part", {tensor, lower, upper}, name, [](const Tensors& inputs) {
    return band(inputs[0], values_of(inputs[1]).at(0), values_of(inputs[2]).at(0));
  });
}

- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_operation(self, "inverse", {tensor}, name, [](const Tensors& inputs) {
    // Nothing on a GPU reports a singular matrix.
    return std::get<0>(at::linalg_inv_ex(widen(inputs[0]), /*check_errors=*/false)).to(inputs[0].scalar_type());
  });
}

@end

// Fourier transforms.

namespace {

// ATen's code for "do not scale".
constexpr int64_t kUnscaled = 0;

struct Transform {
  Sizes axes;
  bool inverse;
  MPSGraphFFTScalingMode scaling;
  bool odd;

  // `sizes` is the shape of the signal, not of half of its spectrum.
  at::Tensor scaled(const at::Tensor& tensor, at::IntArrayRef sizes) const {
    double volume = 1;
    for (const auto axis : wrap_axes(axes, tensor.dim())) {
      volume *= static_cast<double>(sizes[axis]);
    }
    return scaling == MPSGraphFFTScalingModeNone ? tensor
        : scaling == MPSGraphFFTScalingModeSize  ? tensor / volume
                                                 : tensor / std::sqrt(volume);
  }
};

at::Tensor complex_transform(const at::Tensor& tensor, const Transform& transform) {
  TORCH_CHECK(tensor.is_complex(), "the tensor is ", tensor.scalar_type(), ", not complex");
  const auto result = at::_fft_c2c(widen(tensor).contiguous(), transform.axes, kUnscaled, /*forward=*/!transform.inverse);
  return transform.scaled(result, tensor.sizes()).to(tensor.scalar_type());
}

at::Tensor real_transform(const at::Tensor& tensor, const Transform& transform) {
  TORCH_CHECK(tensor.is_floating_point(), "the tensor is ", tensor.scalar_type(), ", not real");
  auto result = at::_fft_r2c(widen(tensor).contiguous(), transform.axes, kUnscaled, /*onesided=*/true);
  if (transform.inverse) {
    result = result.conj().resolve_conj();
  }
  return transform.scaled(result, tensor.sizes()).to(c10::toComplexType(tensor.scalar_type()));
}

at::Tensor real_result_transform(const at::Tensor& tensor, const Transform& transform) {
  TORCH_CHECK(tensor.is_complex(), "the tensor is ", tensor.scalar_type(), ", not complex");
  const auto wide = widen(tensor).contiguous();
  const auto spectrum = transform.inverse ? wide : wide.conj().resolve_conj();
  const auto length = 2 * (tensor.size(transform.axes.back()) - 1) + (transform.odd ? 1 : 0);
  const auto result = at::_fft_c2r(spectrum, transform.axes, kUnscaled, length);
  return transform.scaled(result, result.sizes()).to(c10::toRealValueType(tensor.scalar_type()));
}

} // namespace

#define TRANSFORM(method, function)                                                                              \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axes : (NSArray*)axes descriptor                            \
      : (MPSGraphFFTDescriptor*)descriptor name : (NSString*)name {                                              \
    VALIDATE(axes.count > 0, "no axes");                                                                         \
    const Transform transform{                                                                                   \
        to_sizes(axes), bool(descriptor.inverse), descriptor.scalingMode, bool(descriptor.roundToOddHermitean)}; \
    return add_operation(self, "Fourier transform", {tensor}, name, [transform](const Tensors& inputs) {         \
      return function(inputs[0], transform);                                                                     \
    });                                                                                                          \
  }

@implementation MPSGraph (FourierTransformOperations)

TRANSFORM(fastFourierTransformWithTensor, complex_transform)
TRANSFORM(realToHermiteanFFTWithTensor, real_transform)
TRANSFORM(HermiteanToRealFFTWithTensor, real_result_transform)

@end
