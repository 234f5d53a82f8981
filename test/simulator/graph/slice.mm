// Slices and their gradients.
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

struct Slice {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> strides;
  uint32_t start_mask = 0; // bit of an axis: from its first element on
  uint32_t end_mask = 0; // up to its last one
  uint32_t squeeze_mask = 0; // one element, and the axis goes

  // The slice as positions in an axis, before any axis goes.
  struct Range {
    int64_t first;
    int64_t count;
    int64_t stride;
  };

  Range range(size_t axis, int64_t size) const {
    const int64_t stride = strides[axis];
    if (stride == 0) {
      violation("-[MPSGraph sliceTensor]: a stride is zero");
    }
    if (squeeze_mask >> axis & 1) {
      return {wrapped(starts[axis], size), 1, 1};
    }
    const int64_t lowest = stride > 0 ? 0 : -1;
    const int64_t highest = stride > 0 ? size : size - 1;
    int64_t first = std::clamp(wrapped(starts[axis], size), lowest, highest);
    int64_t last = std::clamp(wrapped(ends[axis], size), lowest, highest);
    if (start_mask >> axis & 1) {
      first = stride > 0 ? 0 : size - 1;
    }
    if (end_mask >> axis & 1) {
      last = stride > 0 ? size : -1;
    }
    const int64_t length = stride > 0 ? last - first : first - last;
    const int64_t step = std::abs(stride);
    return {first, std::max<int64_t>(0, (length + step - 1) / step), stride};
  }

  void check(int64_t rank) const {
    for (const auto* list : {&starts, &ends, &strides}) {
      if (static_cast<int64_t>(list->size()) != rank) {
        violation("-[MPSGraph sliceTensor]: %zu numbers are given for a tensor of rank %lld",
                  list->size(),
                  static_cast<long long>(rank));
      }
    }
  }

  at::Tensor apply(at::Tensor tensor) const {
    check(tensor.dim());
    for (size_t axis = 0; axis < starts.size(); axis++) {
      tensor = take(tensor, axis, range(axis, tensor.size(axis)));
    }
    return squeeze(tensor);
  }

  at::Tensor gradient(const at::Tensor& incoming, const std::vector<int64_t>& sizes) const {
    check(sizes.size());
    at::Tensor gradient = incoming;
    for (size_t axis = 0; axis < sizes.size(); axis++) {
      if (squeeze_mask >> axis & 1) {
        gradient = gradient.unsqueeze(axis);
      }
    }
    for (size_t axis = sizes.size(); axis-- > 0;) {
      gradient = put(gradient, axis, sizes[axis], range(axis, sizes[axis]));
    }
    return gradient;
  }

 private:
  static int64_t wrapped(int64_t position, int64_t size) {
    return position < 0 ? position + size : position;
  }

  static at::Tensor positions(const Range& range, const at::Tensor& like) {
    return at::arange(range.count, like.options().dtype(at::kLong)).mul(range.stride).add(range.first);
  }

  static at::Tensor take(const at::Tensor& tensor, size_t axis, const Range& range) {
    if (range.stride > 0) {
      return tensor.slice(axis, range.first, range.first + range.count * range.stride, range.stride);
    }
    return tensor.index_select(axis, positions(range, tensor));
  }

  static at::Tensor put(const at::Tensor& gradient, size_t axis, int64_t size, const Range& range) {
    auto sizes = gradient.sizes().vec();
    sizes[axis] = size;
    at::Tensor result = at::zeros(sizes, gradient.options());
    return result.index_copy_(axis, positions(range, gradient), gradient);
  }

  at::Tensor squeeze(at::Tensor tensor) const {
    for (size_t axis = starts.size(); axis-- > 0;) {
      if (squeeze_mask >> axis & 1) {
        tensor = tensor.squeeze(axis);
      }
    }
    return tensor;
  }
};

MPSGraphTensor* add_slice(MPSGraph* graph, MPSGraphTensor* tensor, Slice slice, NSString* name) {
  return add_operation(graph, "slice", {tensor}, name, [=](const Tensors& inputs) { return slice.apply(inputs[0]); });
}

} // namespace

@implementation MPSGraph (SliceOperations)

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                     dimension:(NSUInteger)dimension
                         start:(NSInteger)start
                        length:(NSInteger)length
                          name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "slice_dimension", {tensor}, name, [dimension, start, length](const Tensors& inputs) {
    const int64_t axis = wrap_axis(static_cast<int64_t>(dimension), inputs[0].dim());
    const int64_t first = start < 0 ? start + inputs[0].size(axis) : start;
    return inputs[0].narrow(axis, first, length);
  });
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray<NSNumber*>*)starts
                          ends:(NSArray<NSNumber*>*)ends
                       strides:(NSArray<NSNumber*>*)strides
                          name:(NSString*)name {
  COUNT_CALL();
  return add_slice(self, tensor, {to_sizes(starts), to_sizes(ends), to_sizes(strides)}, name);
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray<NSNumber*>*)starts
                          ends:(NSArray<NSNumber*>*)ends
                       strides:(NSArray<NSNumber*>*)strides
                     startMask:(uint32_t)startMask
                       endMask:(uint32_t)endMask
                   squeezeMask:(uint32_t)squeezeMask
                          name:(NSString*)name {
  COUNT_CALL();
  const Slice slice{to_sizes(starts), to_sizes(ends), to_sizes(strides), startMask, endMask, squeezeMask};
  return add_slice(self, tensor, slice, name);
}

- (MPSGraphTensor*)sliceGradientTensor:(MPSGraphTensor*)inputGradientTensor
                      fwdInShapeTensor:(MPSGraphTensor*)fwdInShapeTensor
                                starts:(NSArray<NSNumber*>*)starts
                                  ends:(NSArray<NSNumber*>*)ends
                               strides:(NSArray<NSNumber*>*)strides
                             startMask:(uint32_t)startMask
                               endMask:(uint32_t)endMask
                           squeezeMask:(uint32_t)squeezeMask
                                  name:(NSString*)name {
  COUNT_CALL();
  const Slice slice{to_sizes(starts), to_sizes(ends), to_sizes(strides), startMask, endMask, squeezeMask};
  return add_operation(
      self, "slice_gradient", {inputGradientTensor, fwdInShapeTensor}, name, [slice](const Tensors& inputs) {
        return slice.gradient(inputs[0], values_of(inputs[1]));
      });
}

@end
