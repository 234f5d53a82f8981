// Operations on the shape and the layout of tensors.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

at::Tensor integers(const std::vector<int64_t>& values) {
  return at::tensor(values, at::TensorOptions().device(at::kCPU).dtype(at::kInt));
}

std::vector<int64_t> wrap_axes(const std::vector<int64_t>& axes, int64_t rank) {
  std::vector<int64_t> result;
  for (const int64_t axis : axes) {
    result.push_back(wrap_axis(axis, rank));
  }
  return result;
}

at::Tensor expand_axes(at::Tensor tensor, const std::vector<int64_t>& axes) {
  auto positions = wrap_axes(axes, tensor.dim() + static_cast<int64_t>(axes.size()));
  std::sort(positions.begin(), positions.end());
  for (const int64_t position : positions) {
    tensor = tensor.unsqueeze(position);
  }
  return tensor;
}

at::Tensor squeeze_axes(at::Tensor tensor, const std::vector<int64_t>& axes) {
  auto positions = wrap_axes(axes, tensor.dim());
  std::sort(positions.rbegin(), positions.rend());
  for (const int64_t position : positions) {
    if (tensor.size(position) != 1) {
      violation("-[MPSGraph squeezeTensor:axes:name:]: axis %lld has the size %lld",
                static_cast<long long>(position),
                static_cast<long long>(tensor.size(position)));
    }
    tensor = tensor.squeeze(position);
  }
  return tensor;
}

at::Tensor coordinates(int64_t axis, const std::vector<int64_t>& sizes) {
  const int64_t rank = sizes.size();
  const int64_t position = wrap_axis(axis, rank);
  std::vector<int64_t> along(rank, 1);
  along[position] = sizes[position];
  return at::arange(sizes[position], at::TensorOptions().device(at::kCPU).dtype(at::kInt)).view(along).expand(sizes);
}

at::Tensor concatenated_sample(const Tensors& tensors, int64_t axis) {
  auto sizes = tensors[0].sizes().vec();
  for (size_t i = 1; i < tensors.size(); i++) {
    for (int64_t other = 0; other < tensors[0].dim(); other++) {
      if (tensors[i].dim() != tensors[0].dim() || (other != axis && tensors[i].size(other) != sizes[other])) {
        violation("-[MPSGraph concatTensors:dimension:name:]: %s and %s do not fit along axis %lld",
                  describe(tensors[0].sizes()).c_str(),
                  describe(tensors[i].sizes()).c_str(),
                  static_cast<long long>(axis));
      }
    }
    sizes[axis] += tensors[i].size(axis);
  }
  return at::empty(sizes, tensors[0].options());
}

MPSGraphTensor* add_concatenation(MPSGraph* graph,
                                  std::vector<MPSGraphTensor*> tensors,
                                  int64_t dimension,
                                  bool interleave,
                                  NSString* name) {
  check_same_type("concat", tensors);
  return add_operation(
      graph, "concat", std::move(tensors), name, [dimension, interleave](const Tensors& inputs) -> at::Tensor {
        const int64_t axis = wrap_axis(dimension, inputs[0].dim());
        if (is_sample(inputs[0])) {
          return concatenated_sample(inputs, axis);
        }
        // The first elements of all tensors come first, then the second ones.
        return interleave ? at::stack(inputs, axis + 1).flatten(axis, axis + 1) : at::cat(inputs, axis);
      });
}

} // namespace

// Reshaping and similar operations move no element, so rounding can wait until after them.
@implementation MPSGraph (ShapeOperations)

- (MPSGraphTensor*)reshapeTensor:(MPSGraphTensor*)tensor withShape:(MPSShape*)shape name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "reshape", {tensor}, name, [sizes = to_sizes(shape)](const Tensors& inputs) {
    return inputs[0].reshape(sizes);
  });
}

- (MPSGraphTensor*)flatten2DTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "flatten_2d", {tensor}, name, [axis](const Tensors& inputs) {
    const auto sizes = inputs[0].sizes();
    // The axis may be the rank: then there is one column.
    const int64_t rank = sizes.size();
    const int64_t position = axis == rank ? rank : wrap_axis(axis, rank);
    const int64_t rows = c10::multiply_integers(sizes.slice(0, position));
    const int64_t columns = c10::multiply_integers(sizes.slice(position));
    return inputs[0].reshape({rows, columns});
  });
}

- (MPSGraphTensor*)broadcastTensor:(MPSGraphTensor*)tensor toShape:(MPSShape*)shape name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "broadcast", {tensor}, name, [sizes = to_sizes(shape)](const Tensors& inputs) {
    return inputs[0].expand(sizes);
  });
}

- (MPSGraphTensor*)expandDimsOfTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(
      self, "expand_dims", {tensor}, name, [axis](const Tensors& inputs) { return expand_axes(inputs[0], {axis}); });
}

- (MPSGraphTensor*)expandDimsOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "expand_dims", {tensor}, name, [axes = to_sizes(axes)](const Tensors& inputs) {
    return expand_axes(inputs[0], axes);
  });
}

- (MPSGraphTensor*)squeezeTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "squeeze", {tensor}, name, [](const Tensors& inputs) { return inputs[0].squeeze(); });
}

- (MPSGraphTensor*)squeezeTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(
      self, "squeeze", {tensor}, name, [axis](const Tensors& inputs) { return squeeze_axes(inputs[0], {axis}); });
}

- (MPSGraphTensor*)squeezeTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "squeeze", {tensor}, name, [axes = to_sizes(axes)](const Tensors& inputs) {
    return squeeze_axes(inputs[0], axes);
  });
}

- (MPSGraphTensor*)transposeTensor:(MPSGraphTensor*)tensor
                         dimension:(NSUInteger)dimension
                     withDimension:(NSUInteger)otherDimension
                              name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "transpose", {tensor}, name, [dimension, otherDimension](const Tensors& inputs) {
    const int64_t rank = inputs[0].dim();
    return inputs[0].transpose(wrap_axis(static_cast<int64_t>(dimension), rank),
                               wrap_axis(static_cast<int64_t>(otherDimension), rank));
  });
}

- (MPSGraphTensor*)transposeTensor:(MPSGraphTensor*)tensor
                       permutation:(NSArray<NSNumber*>*)permutation
                              name:(NSString*)name {
  COUNT_CALL();
  return add_fused_operation(self, "permute", {tensor}, name, [order = to_sizes(permutation)](const Tensors& inputs) {
    return inputs[0].permute(order);
  });
}

- (MPSGraphTensor*)reverseTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self,
      "reverse",
      {tensor},
      scalar_type_of(tensor),
      name,
      [axes = to_sizes(axes)](const Tensors& inputs) { return at::flip(inputs[0], wrap_axes(axes, inputs[0].dim())); },
      /*fused=*/false);
}

- (MPSGraphTensor*)tileTensor:(MPSGraphTensor*)tensor withMultiplier:(MPSShape*)multiplier name:(NSString*)name {
  COUNT_CALL();
  return add_operation(self, "tile", {tensor}, name, [counts = to_sizes(multiplier)](const Tensors& inputs) {
    return at::tile(inputs[0], counts);
  });
}

- (MPSGraphTensor*)concatTensor:(MPSGraphTensor*)tensor
                     withTensor:(MPSGraphTensor*)secondTensor
                      dimension:(NSInteger)dimension
                           name:(NSString*)name {
  COUNT_CALL();
  return add_concatenation(self, {tensor, secondTensor}, dimension, false, name);
}

- (MPSGraphTensor*)concatTensors:(NSArray<MPSGraphTensor*>*)tensors
                       dimension:(NSInteger)dimension
                            name:(NSString*)name {
  COUNT_CALL();
  return add_concatenation(self, to_vector<MPSGraphTensor*>(tensors), dimension, false, name);
}

- (MPSGraphTensor*)concatTensors:(NSArray<MPSGraphTensor*>*)tensors
                       dimension:(NSInteger)dimension
                      interleave:(BOOL)interleave
                            name:(NSString*)name {
  COUNT_CALL();
  return add_concatenation(self, to_vector<MPSGraphTensor*>(tensors), dimension, interleave, name);
}

- (NSArray<MPSGraphTensor*>*)splitTensor:(MPSGraphTensor*)tensor
                               numSplits:(NSUInteger)numSplits
                                    axis:(NSInteger)axis
                                    name:(NSString*)name {
  COUNT_CALL();
  return add_operations(self, "split", {tensor}, numSplits, name, [axis, numSplits](const Tensors& inputs) {
    const int64_t position = wrap_axis(axis, inputs[0].dim());
    const int64_t size = inputs[0].size(position);
    if (size % static_cast<int64_t>(numSplits)) {
      violation("-[MPSGraph splitTensor:numSplits:axis:name:]: %lld elements make no %zu equal parts",
                static_cast<long long>(size),
                static_cast<size_t>(numSplits));
    }
    const std::vector<int64_t> sizes(numSplits, size / static_cast<int64_t>(numSplits));
    return inputs[0].split_with_sizes(sizes, position);
  });
}

- (MPSGraphTensor*)shapeOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  COUNT_CALL();
  if (tensor->_type.is_static()) {
    MPSGraphTensor* result = add_operation(
        self, "shape_of", {tensor}, name, [](const Tensors& inputs) { return integers(inputs[0].sizes().vec()); });
    result->_value = integers(tensor->_type.sizes);
    return result;
  }
  const int64_t rank = rank_of(tensor);
  const auto shape = [](const Tensors& inputs) { return integers(inputs[0].sizes().vec()); };
  return rank < 0 ? add_dynamic_operation(self, "shape_of", {tensor}, MPSDataTypeInt32, name, shape)
                  : add_shaped_operation(self, "shape_of", {tensor}, MPSDataTypeInt32, {rank}, name, shape);
}

- (MPSGraphTensor*)coordinateAlongAxis:(NSInteger)axis withShape:(MPSShape*)shape name:(NSString*)name {
  COUNT_CALL();
  const auto sizes = to_sizes(shape);
  return add_shaped_operation(self, "coordinate", {}, MPSDataTypeInt32, sizes, name, [axis, sizes](const Tensors&) {
    return coordinates(axis, sizes);
  });
}

- (MPSGraphTensor*)coordinateAlongAxis:(NSInteger)axis
                       withShapeTensor:(MPSGraphTensor*)shapeTensor
                                  name:(NSString*)name {
  COUNT_CALL();
  const auto expression = [axis](const Tensors& inputs) { return coordinates(axis, values_of(inputs[0])); };
  return shapeTensor->_value
      ? add_operation(self, "coordinate_by_tensor", {shapeTensor}, name, expression)
      : add_dynamic_operation(self, "coordinate_by_tensor", {shapeTensor}, MPSDataTypeInt32, name, expression);
}

- (MPSGraphTensor*)coordinateAlongAxisTensor:(MPSGraphTensor*)axisTensor
                             withShapeTensor:(MPSGraphTensor*)shapeTensor
                                        name:(NSString*)name {
  COUNT_CALL();
  const auto expression = [](const Tensors& inputs) {
    return coordinates(values_of(inputs[0]).at(0), values_of(inputs[1]));
  };
  return axisTensor->_value && shapeTensor->_value
      ? add_operation(self, "coordinate_by_tensors", {axisTensor, shapeTensor}, name, expression)
      : add_dynamic_operation(
            self, "coordinate_by_tensors", {axisTensor, shapeTensor}, MPSDataTypeInt32, name, expression);
}

- (MPSGraphTensor*)castTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)type name:(NSString*)name {
  COUNT_CALL();
  return add_elementwise_operation(
      self, "cast", {tensor}, to_scalar_type(type), name, [type = to_scalar_type(type)](const Tensors& inputs) {
        return convert(inputs[0], type);
      });
}

@end

// Slices and their gradients.

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

// Blocks of an image moved into its channels and back.

namespace {

struct Blocks {
  Blocks(NSUInteger width_axis,
         NSUInteger height_axis,
         NSUInteger depth_axis,
         NSUInteger size,
         BOOL pixel_shuffle_order)
      : width_axis(static_cast<int64_t>(width_axis)),
        height_axis(static_cast<int64_t>(height_axis)),
        depth_axis(static_cast<int64_t>(depth_axis)),
        size(static_cast<int64_t>(size)),
        pixel_shuffle_order(pixel_shuffle_order) {}

  int64_t width_axis;
  int64_t height_axis;
  int64_t depth_axis;
  int64_t size;
  // Which of block position and channel is the outer one in the depth axis.
  bool pixel_shuffle_order;

  // (…, depth, height, width), and back.
  std::vector<int64_t> order(int64_t rank) const {
    const int64_t last[] = {wrap_axis(depth_axis, rank), wrap_axis(height_axis, rank), wrap_axis(width_axis, rank)};
    std::vector<int64_t> result;
    for (int64_t axis = 0; axis < rank; axis++) {
      if (std::find(std::begin(last), std::end(last), axis) == std::end(last)) {
        result.push_back(axis);
      }
    }
    result.insert(result.end(), std::begin(last), std::end(last));
    return result;
  }

  at::Tensor restore(const at::Tensor& tensor) const {
    const auto forward = order(tensor.dim());
    std::vector<int64_t> backward(forward.size());
    for (size_t i = 0; i < forward.size(); i++) {
      backward[forward[i]] = i;
    }
    return tensor.permute(backward);
  }

  at::Tensor space_to_depth(const at::Tensor& tensor) const {
    const at::Tensor image = tensor.permute(order(tensor.dim()));
    const int64_t n = image.dim();
    const int64_t channels = image.size(n - 3);
    const int64_t height = image.size(n - 2) / size;
    const int64_t width = image.size(n - 1) / size;
    const std::vector<int64_t> outer = image.sizes().slice(0, n - 3).vec();
    // C, H, y, W, x
    const at::Tensor blocks = image.reshape(with(outer, {channels, height, size, width, size}));
    const int64_t c = n - 3, h = c + 1, y = c + 2, w = c + 3, x = c + 4;
    const at::Tensor moved =
        pixel_shuffle_order ? blocks.permute(axes(c, {c, y, x, h, w})) : blocks.permute(axes(c, {y, x, c, h, w}));
    return restore(moved.reshape(with(outer, {channels * size * size, height, width})));
  }

  at::Tensor depth_to_space(const at::Tensor& tensor) const {
    const at::Tensor image = tensor.permute(order(tensor.dim()));
    const int64_t n = image.dim();
    const int64_t channels = image.size(n - 3) / (size * size);
    const int64_t height = image.size(n - 2);
    const int64_t width = image.size(n - 1);
    const std::vector<int64_t> outer = image.sizes().slice(0, n - 3).vec();
    const int64_t first = n - 3;
    at::Tensor moved;
    if (pixel_shuffle_order) {
      // C, y, x, H, W
      moved = image.reshape(with(outer, {channels, size, size, height, width}))
                  .permute(axes(first, {first, first + 3, first + 1, first + 4, first + 2}));
    } else {
      // y, x, C, H, W
      moved = image.reshape(with(outer, {size, size, channels, height, width}))
                  .permute(axes(first, {first + 2, first + 3, first, first + 4, first + 1}));
    }
    return restore(moved.reshape(with(outer, {channels, height * size, width * size})));
  }

 private:
  static std::vector<int64_t> with(std::vector<int64_t> outer, std::initializer_list<int64_t> inner) {
    outer.insert(outer.end(), inner);
    return outer;
  }

  static std::vector<int64_t> axes(int64_t untouched, std::initializer_list<int64_t> moved) {
    std::vector<int64_t> result;
    for (int64_t axis = 0; axis < untouched; axis++) {
      result.push_back(axis);
    }
    return with(std::move(result), moved);
  }
};

} // namespace

@implementation MPSGraph (SpaceToDepthOperations)

- (MPSGraphTensor*)spaceToDepth2DTensor:(MPSGraphTensor*)tensor
                              widthAxis:(NSUInteger)widthAxis
                             heightAxis:(NSUInteger)heightAxis
                              depthAxis:(NSUInteger)depthAxis
                              blockSize:(NSUInteger)blockSize
                   usePixelShuffleOrder:(BOOL)usePixelShuffleOrder
                                   name:(NSString*)name {
  COUNT_CALL();
  const Blocks blocks(widthAxis, heightAxis, depthAxis, blockSize, usePixelShuffleOrder);
  return add_operation(self, "space_to_depth", {tensor}, name, [blocks](const Tensors& inputs) {
    return blocks.space_to_depth(inputs[0]);
  });
}

- (MPSGraphTensor*)depthToSpace2DTensor:(MPSGraphTensor*)tensor
                              widthAxis:(NSUInteger)widthAxis
                             heightAxis:(NSUInteger)heightAxis
                              depthAxis:(NSUInteger)depthAxis
                              blockSize:(NSUInteger)blockSize
                   usePixelShuffleOrder:(BOOL)usePixelShuffleOrder
                                   name:(NSString*)name {
  COUNT_CALL();
  const Blocks blocks(widthAxis, heightAxis, depthAxis, blockSize, usePixelShuffleOrder);
  return add_operation(self, "depth_to_space", {tensor}, name, [blocks](const Tensors& inputs) {
    return blocks.depth_to_space(inputs[0]);
  });
}

@end

// The same bytes as another element type.

@implementation MPSGraph (ReinterpretingOperations)

- (MPSGraphTensor*)reinterpretCastTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)type name:(NSString*)name {
  COUNT_CALL();
  if (rank_of(tensor) == 0) {
    violation("%s: a scalar has no last dimension, which could become longer or shorter", __func__);
  }
  const at::ScalarType new_type = to_scalar_type(type);
  return add_operation(self, "reinterpret_cast", {tensor}, name, [new_type](const Tensors& inputs) {
    return inputs[0].contiguous().view(new_type);
  });
}

@end
