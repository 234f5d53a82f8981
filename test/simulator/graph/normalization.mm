// Normalization with given mean and variance, and its gradients. (The mean and
// the variance themselves are reductions: reduction.mm.)
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

namespace mps_simulator::graph {
namespace {

using Axes = std::vector<int64_t>;

// The inputs of an operation some of whose operands are optional.
class Inputs {
 public:
  explicit Inputs(std::initializer_list<MPSGraphTensor*> required) : tensors_(required) {}

  int add(MPSGraphTensor* optional) {
    if (optional == nil) {
      return -1;
    }
    tensors_.push_back(optional);
    return static_cast<int>(tensors_.size()) - 1;
  }

  const std::vector<MPSGraphTensor*>& tensors() const {
    return tensors_;
  }

 private:
  std::vector<MPSGraphTensor*> tensors_;
};

at::Tensor inverse_deviation(const at::Tensor& variance, double epsilon) {
  return (widen(variance) + epsilon).rsqrt();
}

Axes reduction_axes(const Axes& axes, const at::Tensor& tensor) {
  Axes result;
  for (const auto axis : axes) {
    result.push_back(wrap_axis(axis, tensor.dim()));
  }
  return result;
}

at::Tensor sum_over(const at::Tensor& tensor, const Axes& axes) {
  return axes.empty() ? tensor : tensor.sum(axes, /*keepdim=*/true);
}

at::Tensor source_gradient(const at::Tensor& gradient,
                           const at::Tensor& source,
                           const at::Tensor& mean,
                           const at::Tensor& variance,
                           const at::Tensor& gamma,
                           const at::Tensor& gamma_gradient,
                           const at::Tensor& beta_gradient,
                           const Axes& axes,
                           double epsilon) {
  const auto inverse = inverse_deviation(variance, epsilon);
  const auto normalized = (widen(source) - widen(mean)) * inverse;
  const auto wide = widen(gradient);
  double count = 1;
  for (const auto axis : axes) {
    count *= static_cast<double>(source.size(axis));
  }
  // Mean and variance depend on the source: the gradient through each is subtracted.
  const auto through_mean = beta_gradient.defined() ? widen(beta_gradient) : sum_over(wide, axes);
  const auto through_variance = gamma_gradient.defined() ? widen(gamma_gradient) : sum_over(wide * normalized, axes);
  auto result = (wide - through_mean / count - normalized * (through_variance / count)) * inverse;
  if (gamma.defined()) {
    result = result * widen(gamma);
  }
  return result.to(source.scalar_type());
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (SimulatedNormalization)

- (MPSGraphTensor*)normalizationWithTensor:(MPSGraphTensor*)tensor
                                meanTensor:(MPSGraphTensor*)meanTensor
                            varianceTensor:(MPSGraphTensor*)varianceTensor
                               gammaTensor:(MPSGraphTensor*)gammaTensor
                                betaTensor:(MPSGraphTensor*)betaTensor
                                   epsilon:(float)epsilon
                                      name:(NSString*)name {
  COUNT_CALL();
  Inputs operands{tensor, meanTensor, varianceTensor};
  const int gamma = operands.add(gammaTensor);
  const int beta = operands.add(betaTensor);
  return add_operation(self, "normalization", operands.tensors(), name, [=](const Tensors& inputs) {
    auto result = (widen(inputs[0]) - widen(inputs[1])) * inverse_deviation(inputs[2], epsilon);
    if (gamma >= 0) {
      result = result * widen(inputs[gamma]);
    }
    if (beta >= 0) {
      result = result + widen(inputs[beta]);
    }
    return result.to(inputs[0].scalar_type());
  });
}

- (MPSGraphTensor*)normalizationGammaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                           sourceTensor:(MPSGraphTensor*)sourceTensor
                                                             meanTensor:(MPSGraphTensor*)meanTensor
                                                         varianceTensor:(MPSGraphTensor*)varianceTensor
                                                          reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                epsilon:(float)epsilon
                                                                   name:(NSString*)name {
  COUNT_CALL();
  const auto axes = to_sizes(reductionAxes);
  return add_operation(
      self,
      "normalization gamma gradient",
      {incomingGradient, sourceTensor, meanTensor, varianceTensor},
      name,
      [=](const Tensors& inputs) {
        const auto normalized = (widen(inputs[1]) - widen(inputs[2])) * inverse_deviation(inputs[3], epsilon);
        return sum_over(widen(inputs[0]) * normalized, reduction_axes(axes, inputs[1])).to(inputs[1].scalar_type());
      });
}

- (MPSGraphTensor*)normalizationBetaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                         reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                  name:(NSString*)name {
  COUNT_CALL();
  const auto axes = to_sizes(reductionAxes);
  return add_operation(
      self, "normalization beta gradient", {incomingGradient, sourceTensor}, name, [=](const Tensors& inputs) {
        return sum_over(widen(inputs[0]), reduction_axes(axes, inputs[1])).to(inputs[1].scalar_type());
      });
}

- (MPSGraphTensor*)normalizationGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                      sourceTensor:(MPSGraphTensor*)sourceTensor
                                                        meanTensor:(MPSGraphTensor*)meanTensor
                                                    varianceTensor:(MPSGraphTensor*)varianceTensor
                                                       gammaTensor:(MPSGraphTensor*)gammaTensor
                                               gammaGradientTensor:(MPSGraphTensor*)gammaGradientTensor
                                                betaGradientTensor:(MPSGraphTensor*)betaGradientTensor
                                                     reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                           epsilon:(float)epsilon
                                                              name:(NSString*)name {
  COUNT_CALL();
  const auto axes = to_sizes(reductionAxes);
  Inputs operands{incomingGradient, sourceTensor, meanTensor, varianceTensor};
  const int gamma = operands.add(gammaTensor);
  const int gamma_gradient = operands.add(gammaGradientTensor);
  const int beta_gradient = operands.add(betaGradientTensor);
  return add_operation(self, "normalization gradient", operands.tensors(), name, [=](const Tensors& inputs) {
    const auto optional = [&](int place) { return place < 0 ? at::Tensor() : inputs[place]; };
    return source_gradient(inputs[0],
                           inputs[1],
                           inputs[2],
                           inputs[3],
                           optional(gamma),
                           optional(gamma_gradient),
                           optional(beta_gradient),
                           reduction_axes(axes, inputs[1]),
                           epsilon);
  });
}

@end
