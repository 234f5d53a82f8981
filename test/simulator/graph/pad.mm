// Padding and its gradient: along each axis a list tells which element stands
// at each position of the result.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

struct Padding {
  MPSGraphPaddingMode mode;
  Sizes left;
  Sizes right;
  double constant;

  Padding(MPSGraphPaddingMode mode,
          MPSShape* left,
          MPSShape* right,
          double constant = 0,
          const char* method = __builtin_FUNCTION())
      : mode(mode),
        left(to_sizes(left)),
        right(to_sizes(right)),
        constant(mode == MPSGraphPaddingModeConstant ? constant : 0) {
    if (mode == MPSGraphPaddingModeSymmetric) {
      unsupported("%s with padding mode %ld", method, static_cast<long>(mode));
    }
  }

  // Of the padded tensor, or with the sign -1 of the one that was padded.
  std::optional<Sizes> sizes(const TensorType& type, int64_t sign) const {
    if (!type.ranked) {
      return std::nullopt;
    }
    Sizes result = type.sizes;
    for (size_t axis = 0; axis < result.size(); axis++) {
      result[axis] = result[axis] < 0 ? -1 : result[axis] + sign * (left[axis] + right[axis]);
    }
    return result;
  }

  at::Tensor apply(at::Tensor tensor) const {
    for (int64_t axis = 0; axis < tensor.dim(); axis++) {
      if (left[axis] || right[axis]) {
        tensor = apply(tensor, axis);
      }
    }
    return tensor;
  }

 private:
  at::Tensor apply(const at::Tensor& tensor, int64_t axis) const {
    const int64_t size = tensor.size(axis);
    const auto places = at::arange(-left[axis], size + right[axis], tensor.options().dtype(at::kLong));
    if (mode == MPSGraphPaddingModeReflect) {
      const auto phase = places.remainder(std::max<int64_t>(2 * size - 2, 1));
      return tensor.index_select(axis, at::minimum(phase, (2 * size - 2 - phase).abs()));
    }
    if (mode == MPSGraphPaddingModeClampToEdge) {
      return tensor.index_select(axis, places.clamp(0, size - 1));
    }
    std::vector<int64_t> amounts(2 * (tensor.dim() - axis));
    amounts[amounts.size() - 2] = left[axis];
    amounts[amounts.size() - 1] = right[axis];
    return at::constant_pad_nd(tensor, amounts, constant);
  }
};

void check(const Padding& padding, MPSGraphTensor* tensor, const char* method = __builtin_FUNCTION()) {
  const int64_t rank = rank_of(tensor);
  if (rank >= 0 && (padding.left.size() != size_t(rank) || padding.right.size() != size_t(rank))) {
    violation("%s: %zu and %zu paddings for rank %ld", method, padding.left.size(), padding.right.size(), (long)rank);
  }
}

} // namespace

@implementation MPSGraph (PadOperations)

- (MPSGraphTensor*)padTensor:(MPSGraphTensor*)tensor
             withPaddingMode:(MPSGraphPaddingMode)mode
                 leftPadding:(MPSShape*)left
                rightPadding:(MPSShape*)right
               constantValue:(double)constant
                        name:(NSString*)name {
  const Padding padding(mode, left, right, constant);
  check(padding, tensor);
  const TensorType& type = tensor->_type;
  return add_shaped_operation(
      self, "pad", {tensor}, type.type, padding.sizes(type, 1), name, [padding](const Tensors& inputs) {
        return padding.apply(inputs[0]);
      });
}

- (MPSGraphTensor*)padGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                            sourceTensor:(MPSGraphTensor*)source
                                             paddingMode:(MPSGraphPaddingMode)mode
                                             leftPadding:(MPSShape*)left
                                            rightPadding:(MPSShape*)right
                                                    name:(NSString*)name {
  const Padding padding(mode, left, right);
  check(padding, gradient);
  const TensorType& type = gradient->_type;
  // A caller may have cropped the source before.
  const auto sizes = padding.sizes(type, -1);
  const auto expression = [padding](const Tensors& inputs) {
    const auto wide = widen(inputs[0]);
    const TensorType padded{true, wide.sizes().vec()};
    const auto like = wide.new_empty({1}).expand(*padding.sizes(padded, -1));
    return gradient_of([&](const at::Tensor& tensor) { return padding.apply(tensor); }, like, wide)
        .to(inputs[0].scalar_type());
  };
  return add_shaped_operation(self, "pad_gradient", {gradient, source}, type.type, sizes, name, expression);
}

@end
