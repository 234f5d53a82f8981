// Activation functions and their gradients.
#include "graph/operation.h"
#include "support/counters.h"

#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (ActivationOperations)

- (MPSGraphTensor*)reLUWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self, "relu", {tensor}, scalar_type_of(tensor), [](const Tensors& inputs) { return at::relu(inputs[0]); }, name);
}

- (MPSGraphTensor*)reLUGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                       sourceTensor:(MPSGraphTensor*)sourceTensor
                                               name:(NSString*)name {
  COUNT_CALL();
  check_same_type("relu_gradient", {incomingGradient, sourceTensor});
  return add_elementwise_operation(
      self,
      "relu_gradient",
      {incomingGradient, sourceTensor},
      scalar_type_of(sourceTensor),
      [](const Tensors& inputs) { return inputs[0].masked_fill(inputs[1].le(0), 0); },
      name);
}

- (MPSGraphTensor*)leakyReLUWithTensor:(MPSGraphTensor*)tensor alpha:(double)alpha name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self,
      "leaky_relu",
      {tensor},
      scalar_type_of(tensor),
      [alpha](const Tensors& inputs) { return at::leaky_relu(inputs[0], alpha); },
      name);
}

- (MPSGraphTensor*)sigmoidWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self,
      "sigmoid",
      {tensor},
      scalar_type_of(tensor),
      [](const Tensors& inputs) { return at::sigmoid(inputs[0]); },
      name);
}

- (MPSGraphTensor*)sigmoidGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                  name:(NSString*)name {
  COUNT_CALL();
  check_same_type("sigmoid_gradient", {incomingGradient, sourceTensor});
  return add_elementwise_operation(
      self,
      "sigmoid_gradient",
      {incomingGradient, sourceTensor},
      scalar_type_of(sourceTensor),
      [](const Tensors& inputs) {
        const at::Tensor output = at::sigmoid(inputs[1]);
        return inputs[0].mul(output).mul(output.neg().add(1));
      },
      name);
}

- (MPSGraphTensor*)softMaxWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self,
      "softmax",
      {tensor},
      scalar_type_of(tensor),
      [axis](const Tensors& inputs) { return at::softmax(inputs[0], wrap_axis(axis, inputs[0].dim())); },
      name,
      /*fused=*/false);
}

- (MPSGraphTensor*)softMaxGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                  axis:(NSInteger)axis
                                                  name:(NSString*)name {
  COUNT_CALL();
  check_same_type("softmax_gradient", {incomingGradient, sourceTensor});
  return add_elementwise_operation(
      self,
      "softmax_gradient",
      {incomingGradient, sourceTensor},
      scalar_type_of(sourceTensor),
      [axis](const Tensors& inputs) {
        const int64_t position = wrap_axis(axis, inputs[1].dim());
        const at::Tensor output = at::softmax(inputs[1], position);
        const at::Tensor weighted = inputs[0].mul(output);
        return weighted.sub(output.mul(weighted.sum(position, /*keepdim=*/true)));
      },
      name,
      /*fused=*/false);
}

@end
