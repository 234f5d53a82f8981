// Normalization with given mean and variance, and its gradients. (The mean and
// the variance themselves are reductions: reduction.mm.)
#include "graph/elementwise.h"
#include "graph/operation.h"

#include <ATen/ATen.h>

using namespace mps_simulator::graph;

namespace {

at::Tensor normalized(const at::Tensor& source, const at::Tensor& mean, const at::Tensor& variance, double epsilon) {
  return (widen(source) - widen(mean)) * (widen(variance) + epsilon).rsqrt();
}

at::Tensor sum_over(const at::Tensor& tensor, const Sizes& axes) {
  return axes.empty() ? tensor : tensor.sum(axes, /*keepdim=*/true);
}

} // namespace

@implementation MPSGraph (NormalizationOperations)

- (MPSGraphTensor*)normalizationWithTensor:(MPSGraphTensor*)tensor
                                meanTensor:(MPSGraphTensor*)mean
                            varianceTensor:(MPSGraphTensor*)variance
                               gammaTensor:(MPSGraphTensor*)gamma
                                betaTensor:(MPSGraphTensor*)beta
                                   epsilon:(float)epsilon
                                      name:(NSString*)name {
  Inputs operands{tensor, mean, variance, gamma, beta};
  const SingleExpression expression = [=](const Tensors& inputs) {
    auto result = normalized(inputs[0], inputs[1], inputs[2], epsilon);
    if (inputs[3].defined()) {
      result = result * widen(inputs[3]);
    }
    if (inputs[4].defined()) {
      result = result + widen(inputs[4]);
    }
    return result.to(inputs[0].scalar_type());
  };
  const auto without_gaps = without_nil(operands, expression);
  return add_operation(self, "normalization", operands, name, without_gaps);
}

- (MPSGraphTensor*)normalizationGammaGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                           sourceTensor:(MPSGraphTensor*)source
                                                             meanTensor:(MPSGraphTensor*)mean
                                                         varianceTensor:(MPSGraphTensor*)variance
                                                          reductionAxes:(NSArray*)reductionAxes
                                                                epsilon:(float)epsilon
                                                                   name:(NSString*)name {
  const auto axes = to_sizes(reductionAxes);
  const Inputs operands{gradient, source, mean, variance};
  return add_operation(self, "normalization gamma gradient", operands, name, [=](const Tensors& inputs) {
    const auto scaled = widen(inputs[0]) * normalized(inputs[1], inputs[2], inputs[3], epsilon);
    return sum_over(scaled, axes).to(inputs[1].scalar_type());
  });
}

- (MPSGraphTensor*)normalizationBetaGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                          sourceTensor:(MPSGraphTensor*)source
                                                         reductionAxes:(NSArray*)reductionAxes
                                                                  name:(NSString*)name {
  const auto axes = to_sizes(reductionAxes);
  return add_operation(self, "normalization beta gradient", {gradient, source}, name, [=](const Tensors& inputs) {
    return sum_over(widen(inputs[0]), axes).to(inputs[1].scalar_type());
  });
}

- (MPSGraphTensor*)normalizationGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                      sourceTensor:(MPSGraphTensor*)source
                                                        meanTensor:(MPSGraphTensor*)mean
                                                    varianceTensor:(MPSGraphTensor*)variance
                                                       gammaTensor:(MPSGraphTensor*)gamma
                                               gammaGradientTensor:(MPSGraphTensor*)gammaGradient
                                                betaGradientTensor:(MPSGraphTensor*)betaGradient
                                                     reductionAxes:(NSArray*)reductionAxes
                                                           epsilon:(float)epsilon
                                                              name:(NSString*)name {
  const auto axes = to_sizes(reductionAxes);
  Inputs operands{gradient, source, mean, variance, gamma, gammaGradient, betaGradient};
  const SingleExpression expression = [=](const Tensors& inputs) {
    const auto wide = widen(inputs[0]);
    const auto numbers = normalized(inputs[1], inputs[2], inputs[3], epsilon);
    double count = 1;
    for (const auto axis : axes) {
      count *= static_cast<double>(inputs[1].size(axis));
    }
    // Mean and variance depend on the source: the gradient through each is subtracted.
    const auto through_mean = inputs[6].defined() ? widen(inputs[6]) : sum_over(wide, axes);
    const auto through_variance = inputs[5].defined() ? widen(inputs[5]) : sum_over(wide * numbers, axes);
    auto result =
        (wide - through_mean / count - numbers * (through_variance / count)) * (widen(inputs[3]) + epsilon).rsqrt();
    if (inputs[4].defined()) {
      result = result * widen(inputs[4]);
    }
    return result.to(inputs[1].scalar_type());
  };
  const auto without_gaps = without_nil(operands, expression);
  return add_operation(self, "normalization gradient", operands, name, without_gaps);
}

@end
