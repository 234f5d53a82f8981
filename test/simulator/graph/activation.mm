// Activation functions and their gradients.
#include "graph/operation.h"
#include "support/counters.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (ActivationOperations)

- (MPSGraphTensor*)reLUWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self, "relu", {tensor}, scalar_type_of(tensor), name, [](const Tensors& inputs) { return at::relu(inputs[0]); });
}

- (MPSGraphTensor*)reLUGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                       sourceTensor:(MPSGraphTensor*)sourceTensor
                                               name:(NSString*)name {
  COUNT_CALL();
  check_same_type("relu_gradient", {incomingGradient, sourceTensor});
  return add_elementwise_operation(self,
                                   "relu_gradient",
                                   {incomingGradient, sourceTensor},
                                   scalar_type_of(sourceTensor),
                                   name,
                                   [](const Tensors& inputs) { return inputs[0].masked_fill(inputs[1].le(0), 0); });
}

- (MPSGraphTensor*)leakyReLUWithTensor:(MPSGraphTensor*)tensor alpha:(double)alpha name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self, "leaky_relu", {tensor}, scalar_type_of(tensor), name, [alpha](const Tensors& inputs) {
        return at::leaky_relu(inputs[0], alpha);
      });
}

- (MPSGraphTensor*)sigmoidWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(self, "sigmoid", {tensor}, scalar_type_of(tensor), name, [](const Tensors& inputs) {
    return at::sigmoid(inputs[0]);
  });
}

- (MPSGraphTensor*)sigmoidGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                  name:(NSString*)name {
  COUNT_CALL();
  check_same_type("sigmoid_gradient", {incomingGradient, sourceTensor});
  return add_elementwise_operation(self,
                                   "sigmoid_gradient",
                                   {incomingGradient, sourceTensor},
                                   scalar_type_of(sourceTensor),
                                   name,
                                   [](const Tensors& inputs) {
                                     const at::Tensor output = at::sigmoid(inputs[1]);
                                     return inputs[0].mul(output).mul(output.neg().add(1));
                                   });
}

- (MPSGraphTensor*)softMaxWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self,
      "softmax",
      {tensor},
      scalar_type_of(tensor),
      name,
      [axis](const Tensors& inputs) { return at::softmax(inputs[0], wrap_axis(axis, inputs[0].dim())); },
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
      name,
      [axis](const Tensors& inputs) {
        const int64_t position = wrap_axis(axis, inputs[1].dim());
        const at::Tensor output = at::softmax(inputs[1], position);
        const at::Tensor weighted = inputs[0].mul(output);
        return weighted.sub(output.mul(weighted.sum(position, /*keepdim=*/true)));
      },
      /*fused=*/false);
}

@end
