// Padding and its gradient: along each axis a list tells which element stands
// at each position of the result.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

constexpr int64_t outside = -1;

int64_t reflect(int64_t position, int64_t size, bool repeat_edge) {
  const int64_t period = repeat_edge ? 2 * size : std::max<int64_t>(2 * size - 2, 1);
  const int64_t phase = ((position % period) + period) % period;
  if (phase < size) {
    return phase;
  }
  return repeat_edge ? period - 1 - phase : period - phase;
}

int64_t source_of(int64_t position, int64_t size, MPSGraphPaddingMode mode) {
  if (position >= 0 && position < size) {
    return position;
  }
  switch (mode) {
    case MPSGraphPaddingModeConstant:
    case MPSGraphPaddingModeZero:
      return outside;
    case MPSGraphPaddingModeReflect:
      return reflect(position, size, /*repeat_edge=*/false);
    case MPSGraphPaddingModeSymmetric:
      return reflect(position, size, /*repeat_edge=*/true);
    case MPSGraphPaddingModeClampToEdge:
      return std::clamp<int64_t>(position, 0, size - 1);
    case MPSGraphPaddingModePeriodic:
      return ((position % size) + size) % size;
    default:
      unsupported("MPSGraphPaddingMode %d", static_cast<int>(mode));
  }
}

struct Padding {
  MPSGraphPaddingMode mode;
  std::vector<int64_t> left;
  std::vector<int64_t> right;

  std::vector<int64_t> padded_sizes(at::IntArrayRef sizes) const {
    check(sizes.size());
    std::vector<int64_t> result;
    for (size_t axis = 0; axis < sizes.size(); axis++) {
      result.push_back(sizes[axis] < 0 ? -1 : sizes[axis] + left[axis] + right[axis]);
    }
    return result;
  }

  // Sizes of the tensor that was padded, which a caller may have cropped before.
  std::vector<int64_t> source_sizes(at::IntArrayRef padded) const {
    check(padded.size());
    std::vector<int64_t> result;
    for (size_t axis = 0; axis < padded.size(); axis++) {
      result.push_back(padded[axis] < 0 ? -1 : padded[axis] - left[axis] - right[axis]);
    }
    return result;
  }

  at::Tensor apply(const at::Tensor& tensor, double constant) const {
    check(tensor.dim());
    at::Tensor result = tensor;
    for (int64_t axis = 0; axis < tensor.dim(); axis++) {
      if (left[axis] || right[axis]) {
        result = apply(result, axis, constant);
      }
    }
    return result;
  }

  at::Tensor gradient(const at::Tensor& incoming) const {
    const auto sizes = source_sizes(incoming.sizes());
    at::Tensor result = widen(incoming);
    for (int64_t axis = 0; axis < incoming.dim(); axis++) {
      if (left[axis] || right[axis]) {
        result = gradient(result, axis, sizes[axis]);
      }
    }
    return result.to(incoming.scalar_type());
  }

 private:
  void check(size_t rank) const {
    if (left.size() != rank || right.size() != rank) {
      violation("-[MPSGraph padTensor]: %zu and %zu paddings are given for a tensor of rank %zu",
                left.size(),
                right.size(),
                rank);
    }
  }

  at::Tensor sources(int64_t axis, int64_t size) const {
    std::vector<int64_t> positions;
    for (int64_t position = -left[axis]; position < size + right[axis]; position++) {
      positions.push_back(source_of(position, size, mode));
    }
    return at::tensor(positions, at::TensorOptions().device(at::kCPU).dtype(at::kLong));
  }

  // A mask over one axis, to be broadcast over the others.
  static at::Tensor along(const at::Tensor& mask, int64_t axis, int64_t rank) {
    std::vector<int64_t> sizes(rank, 1);
    sizes[axis] = mask.numel();
    return mask.view(sizes);
  }

  at::Tensor apply(const at::Tensor& tensor, int64_t axis, double constant) const {
    const at::Tensor positions = sources(axis, tensor.size(axis));
    const at::Tensor missing = positions.eq(outside);
    if (tensor.size(axis) == 0) {
      auto sizes = tensor.sizes().vec();
      sizes[axis] = positions.numel();
      return at::zeros(sizes, tensor.options()).fill_(constant);
    }
    return tensor.index_select(axis, positions.clamp_min(0)).masked_fill(along(missing, axis, tensor.dim()), constant);
  }

  at::Tensor gradient(const at::Tensor& incoming, int64_t axis, int64_t size) const {
    auto sizes = incoming.sizes().vec();
    sizes[axis] = size;
    const at::Tensor positions = sources(axis, size);
    const at::Tensor missing = positions.eq(outside);
    const at::Tensor counted = incoming.masked_fill(along(missing, axis, incoming.dim()), 0);
    return at::zeros(sizes, incoming.options()).index_add_(axis, positions.clamp_min(0), counted);
  }
};

} // namespace

@implementation MPSGraph (PadOperations)

- (MPSGraphTensor*)padTensor:(MPSGraphTensor*)tensor
             withPaddingMode:(MPSGraphPaddingMode)paddingMode
                 leftPadding:(MPSShape*)leftPadding
                rightPadding:(MPSShape*)rightPadding
               constantValue:(double)constantValue
                        name:(NSString*)name {
  COUNT_CALL();
  const Padding padding{paddingMode, to_sizes(leftPadding), to_sizes(rightPadding)};
  const double constant = paddingMode == MPSGraphPaddingModeConstant ? constantValue : 0;
  const auto expression = [padding, constant](const Tensors& inputs) { return padding.apply(inputs[0], constant); };
  if (!tensor->_type.ranked) {
    return add_operation(self, "pad", {tensor}, name, expression);
  }
  return add_shaped_operation(self,
                              "pad",
                              {tensor},
                              to_data_type(tensor->_type.type),
                              padding.padded_sizes(tensor->_type.sizes),
                              name,
                              expression);
}

- (MPSGraphTensor*)padGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                            sourceTensor:(MPSGraphTensor*)sourceTensor
                                             paddingMode:(MPSGraphPaddingMode)paddingMode
                                             leftPadding:(MPSShape*)leftPadding
                                            rightPadding:(MPSShape*)rightPadding
                                                    name:(NSString*)name {
  COUNT_CALL();
  const Padding padding{paddingMode, to_sizes(leftPadding), to_sizes(rightPadding)};
  const auto expression = [padding](const Tensors& inputs) { return padding.gradient(inputs[0]); };
  if (!incomingGradient->_type.ranked) {
    return add_operation(self, "pad_gradient", {incomingGradient, sourceTensor}, name, expression);
  }
  return add_shaped_operation(self,
                              "pad_gradient",
                              {incomingGradient, sourceTensor},
                              to_data_type(incomingGradient->_type.type),
                              padding.source_sizes(incomingGradient->_type.sizes),
                              name,
                              expression);
}

@end
