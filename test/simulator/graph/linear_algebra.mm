// Matrix products, inverses, band matrices and attention.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/computation_type.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

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

- (MPSGraphTensor*)scaledDotProductAttentionWithQueryTensor:(MPSGraphTensor*)queryTensor
                                                  keyTensor:(MPSGraphTensor*)keyTensor
                                                valueTensor:(MPSGraphTensor*)valueTensor
                                                 maskTensor:(MPSGraphTensor*)maskTensor
                                                      scale:(float)scale
                                                       name:(NSString*)name {
  COUNT_CALL();
  std::vector<MPSGraphTensor*> operands{queryTensor, keyTensor, valueTensor};
  const bool masked = maskTensor != nil;
  if (masked) {
    operands.push_back(maskTensor);
  }
  return add_operation(self, "scaled dot product attention", operands, name, [=](const Tensors& inputs) {
    auto scores = at::matmul(widen(inputs[0]), widen(inputs[1]).transpose(-2, -1)) * scale;
    if (masked) {
      scores = scores + widen(inputs[3]);
    }
    return at::matmul(at::softmax(scores, -1), widen(inputs[2])).to(inputs[0].scalar_type());
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
