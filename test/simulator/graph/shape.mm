// Operations on the shape and the layout of tensors.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
#include "graph/operation.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

at::Tensor integers(at::IntArrayRef values) {
  return at::tensor(values, at::TensorOptions().device(at::kCPU).dtype(at::kInt));
}

at::Tensor expand_axes(at::Tensor tensor, const Sizes& axes) {
  auto positions = wrap_axes(axes, tensor.dim() + static_cast<int64_t>(axes.size()));
  std::sort(positions.begin(), positions.end());
  for (const int64_t position : positions) {
    tensor = tensor.unsqueeze(position);
  }
  return tensor;
}

at::Tensor squeeze_axes(const at::Tensor& tensor, const Sizes& axes) {
  for (const int64_t position : wrap_axes(axes, tensor.dim())) {
    TORCH_CHECK(tensor.size(position) == 1, "axis ", position, " has the size ", tensor.size(position));
  }
  return tensor.squeeze(wrap_axes(axes, tensor.dim()));
}

at::Tensor flatten_2d(const at::Tensor& tensor, int64_t axis) {
  // The axis may be the rank: then there is one column.
  const auto sizes = tensor.sizes();
  const int64_t position = axis == tensor.dim() ? axis : wrap_axis(axis, tensor.dim());
  return tensor.reshape(
      {c10::multiply_integers(sizes.slice(0, position)), c10::multiply_integers(sizes.slice(position))});
}

at::Tensor coordinates(int64_t axis, const Sizes& sizes) {
  const int64_t position = wrap_axis(axis, sizes.size());
  Sizes along(sizes.size(), 1);
  along[position] = sizes[position];
  return at::arange(sizes[position], at::TensorOptions().device(at::kCPU).dtype(at::kInt)).view(along).expand(sizes);
}

MPSGraphTensor* add_coordinates(MPSGraph* graph,
                                MPSGraphTensor* shape,
                                MPSGraphTensor* axis,
                                NSString* name,
                                SingleExpression expression,
                                const char* method = __builtin_FUNCTION()) {
  const bool known = shape->_value && (!axis || axis->_value);
  const Inputs inputs = axis ? Inputs{shape, axis} : Inputs{shape};
  return known
      ? add_operation(graph, "coordinate", inputs, name, expression, false, method)
      : add_shaped_operation(graph, "coordinate", inputs, at::kInt, std::nullopt, name, expression, false, method);
}

MPSGraphTensor* add_concatenation(MPSGraph* graph,
                                  Inputs tensors,
                                  int64_t dimension,
                                  bool interleave,
                                  NSString* name,
                                  const char* method = __builtin_FUNCTION()) {
  check_same_type("concat", tensors);
  const auto concatenate = [dimension, interleave](const Tensors& inputs) -> at::Tensor {
    const int64_t axis = wrap_axis(dimension, inputs[0].dim());
    // The first elements of all tensors come first, then the second ones.
    return interleave ? at::stack(inputs, axis + 1).flatten(axis, axis + 1) : at::cat(inputs, axis);
  };
  return add_operation(graph, "concat", std::move(tensors), name, concatenate, false, method);
}

} // namespace

// Reshaping and similar operations move no element, so rounding can wait until after them.
@implementation MPSGraph (ShapeOperations)

TENSOR_METHOD(add_fused_operation, reshapeTensor, withShape, MPSShape*, "reshape", x.reshape(a))
TENSOR_METHOD(add_fused_operation, flatten2DTensor, axis, NSInteger, "flatten_2d", flatten_2d(x, a))
TENSOR_METHOD(add_fused_operation, broadcastTensor, toShape, MPSShape*, "broadcast", x.expand(a))
TENSOR_METHOD(add_fused_operation, expandDimsOfTensor, axis, NSInteger, "expand_dims", expand_axes(x, {a}))
TENSOR_METHOD(add_fused_operation, expandDimsOfTensor, axes, NSArray*, "expand_dims", expand_axes(x, a))
TENSOR_METHOD(add_fused_operation, squeezeTensor, axis, NSInteger, "squeeze", squeeze_axes(x, {a}))
TENSOR_METHOD(add_fused_operation, squeezeTensor, axes, NSArray*, "squeeze", squeeze_axes(x, a))
TENSOR_METHOD(add_alike_operation, reverseTensor, axes, NSArray*, "reverse", at::flip(x, wrap_axes(a, x.dim())))
TENSOR_METHOD(add_operation, tileTensor, withMultiplier, MPSShape*, "tile", at::tile(x, a))

- (MPSGraphTensor*)squeezeTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_operation(self, "squeeze", {tensor}, name, [](const Tensors& inputs) { return inputs[0].squeeze(); });
}

- (MPSGraphTensor*)transposeTensor:(MPSGraphTensor*)tensor
                         dimension:(NSUInteger)dimension
                     withDimension:(NSUInteger)other
                              name:(NSString*)name {
  return add_fused_operation(self, "transpose", {tensor}, name, [dimension, other](const Tensors& inputs) {
    return inputs[0].transpose(static_cast<int64_t>(dimension), static_cast<int64_t>(other));
  });
}

- (MPSGraphTensor*)concatTensor:(MPSGraphTensor*)tensor
                     withTensor:(MPSGraphTensor*)secondTensor
                      dimension:(NSInteger)dimension
                           name:(NSString*)name {
  return add_concatenation(self, {tensor, secondTensor}, dimension, false, name);
}

- (MPSGraphTensor*)concatTensors:(NSArray*)tensors dimension:(NSInteger)dimension name:(NSString*)name {
  return add_concatenation(self, to_vector<MPSGraphTensor*>(tensors), dimension, false, name);
}

- (MPSGraphTensor*)concatTensors:(NSArray*)tensors
                       dimension:(NSInteger)dimension
                      interleave:(BOOL)interleave
                            name:(NSString*)name {
  return add_concatenation(self, to_vector<MPSGraphTensor*>(tensors), dimension, interleave, name);
}

- (NSArray*)splitTensor:(MPSGraphTensor*)tensor numSplits:(NSUInteger)count axis:(NSInteger)axis name:(NSString*)name {
  return add_operations(self, "split", {tensor}, count, name, [axis, count](const Tensors& inputs) {
    const int64_t size = inputs[0].size(axis);
    TORCH_CHECK(size % static_cast<int64_t>(count) == 0, size, " elements make no ", count, " equal parts");
    return inputs[0].split_with_sizes(Sizes(count, size / static_cast<int64_t>(count)), axis);
  });
}

- (MPSGraphTensor*)shapeOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  const TensorType& type = tensor->_type;
  const auto sizes = type.ranked ? std::optional(Sizes{rank_of(tensor)}) : std::nullopt;
  MPSGraphTensor* result =
      add_shaped_operation(self, "shape_of", {tensor}, at::kInt, sizes, name, [](const Tensors& inputs) {
        return integers(inputs[0].sizes());
      });
  if (type.is_static()) {
    result->_value = integers(type.sizes);
  }
  return result;
}

- (MPSGraphTensor*)coordinateAlongAxis:(NSInteger)axis withShape:(MPSShape*)shape name:(NSString*)name {
  const auto sizes = to_sizes(shape);
  return add_shaped_operation(self, "coordinate", {}, at::kInt, sizes, name, [axis, sizes](const Tensors&) {
    return coordinates(axis, sizes);
  });
}

- (MPSGraphTensor*)coordinateAlongAxis:(NSInteger)axis withShapeTensor:(MPSGraphTensor*)shape name:(NSString*)name {
  return add_coordinates(
      self, shape, nil, name, [axis](const Tensors& inputs) { return coordinates(axis, values_of(inputs[0])); });
}

- (MPSGraphTensor*)coordinateAlongAxisTensor:(MPSGraphTensor*)axis
                             withShapeTensor:(MPSGraphTensor*)shape
                                        name:(NSString*)name {
  return add_coordinates(self, shape, axis, name, [](const Tensors& inputs) {
    return coordinates(values_of(inputs[1]).at(0), values_of(inputs[0]));
  });
}

- (MPSGraphTensor*)castTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)data_type name:(NSString*)name {
  const auto type = to_scalar_type(data_type);
  return add_elementwise_operation(
      self, "cast", {tensor}, type, name, [type](const Tensors& inputs) { return convert(inputs[0], type); });
}

@end

// Slices and their gradients; blocks of an image moved into its channels and back.

namespace {

struct Slice {
  Sizes starts;
  Sizes ends;
  Sizes strides;
  uint32_t start_mask = 0; // bit of an axis: from its first element on
  uint32_t end_mask = 0; // up to its last one

  at::Tensor apply(at::Tensor tensor) const {
    for (const auto* list : {&starts, &ends, &strides}) {
      TORCH_CHECK(static_cast<int64_t>(list->size()) == tensor.dim(), list->size(), " numbers for rank ", tensor.dim());
    }
    for (size_t axis = 0; axis < starts.size(); axis++) {
      const auto first = start_mask >> axis & 1 ? std::nullopt : std::optional(starts[axis]);
      const auto last = end_mask >> axis & 1 ? std::nullopt : std::optional(ends[axis]);
      tensor = tensor.slice(axis, first, last, strides[axis]);
    }
    return tensor;
  }
};

Slice slice_of(NSArray* starts,
               NSArray* ends,
               NSArray* strides,
               uint32_t start_mask = 0,
               uint32_t end_mask = 0,
               uint32_t squeeze_mask = 0,
               const char* method = __builtin_FUNCTION()) {
  if (squeeze_mask) {
    unsupported("%s with a squeeze mask", method);
  }
  return {to_sizes(starts), to_sizes(ends), to_sizes(strides), start_mask, end_mask};
}

MPSGraphTensor* add_blocks(MPSGraph* graph,
                           MPSGraphTensor* tensor,
                           const Sizes& axes,
                           BOOL pixel_shuffle_order,
                           int64_t size,
                           at::Tensor (*move)(const at::Tensor& tensor, int64_t size),
                           NSString* name,
                           const char* method = __builtin_FUNCTION()) {
  const int64_t rank = rank_of(tensor);
  if (!pixel_shuffle_order || axes != Sizes{rank - 3, rank - 2, rank - 1}) {
    unsupported("%s in another order than channels, height, width, or not in the order of a pixel shuffle", method);
  }
  const auto expression = [size, move](const Tensors& inputs) { return move(inputs[0], size); };
  return add_operation(graph, "move blocks", {tensor}, name, expression, false, method);
}

} // namespace

@implementation MPSGraph (SliceOperations)

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                     dimension:(NSUInteger)dimension
                         start:(NSInteger)start
                        length:(NSInteger)length
                          name:(NSString*)name {
  return add_operation(self, "slice_dimension", {tensor}, name, [dimension, start, length](const Tensors& inputs) {
    return inputs[0].narrow(static_cast<int64_t>(dimension), start, length);
  });
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray*)starts
                          ends:(NSArray*)ends
                       strides:(NSArray*)strides
                          name:(NSString*)name {
  const auto slice = slice_of(starts, ends, strides);
  return add_operation(self, "slice", {tensor}, name, [=](const Tensors& inputs) { return slice.apply(inputs[0]); });
}

- (MPSGraphTensor*)sliceTensor:(MPSGraphTensor*)tensor
                        starts:(NSArray*)starts
                          ends:(NSArray*)ends
                       strides:(NSArray*)strides
                     startMask:(uint32_t)startMask
                       endMask:(uint32_t)endMask
                   squeezeMask:(uint32_t)squeezeMask
                          name:(NSString*)name {
  const auto slice = slice_of(starts, ends, strides, startMask, endMask, squeezeMask);
  return add_operation(self, "slice", {tensor}, name, [=](const Tensors& inputs) { return slice.apply(inputs[0]); });
}

- (MPSGraphTensor*)sliceGradientTensor:(MPSGraphTensor*)gradient
                      fwdInShapeTensor:(MPSGraphTensor*)shape
                                starts:(NSArray*)starts
                                  ends:(NSArray*)ends
                               strides:(NSArray*)strides
                             startMask:(uint32_t)startMask
                               endMask:(uint32_t)endMask
                           squeezeMask:(uint32_t)squeezeMask
                                  name:(NSString*)name {
  const auto slice = slice_of(starts, ends, strides, startMask, endMask, squeezeMask);
  return add_operation(self, "slice_gradient", {gradient, shape}, name, [=](const Tensors& inputs) {
    const at::Tensor source = inputs[0].new_empty({1}).expand(values_of(inputs[1]));
    return gradient_of([&](const at::Tensor& tensor) { return slice.apply(tensor); }, source, inputs[0]);
  });
}

- (MPSGraphTensor*)spaceToDepth2DTensor:(MPSGraphTensor*)tensor
                              widthAxis:(NSUInteger)width
                             heightAxis:(NSUInteger)height
                              depthAxis:(NSUInteger)depth
                              blockSize:(NSUInteger)size
                   usePixelShuffleOrder:(BOOL)order
                                   name:(NSString*)name {
  const Sizes axes{int64_t(depth), int64_t(height), int64_t(width)};
  return add_blocks(self, tensor, axes, order, size, at::pixel_unshuffle, name);
}

- (MPSGraphTensor*)depthToSpace2DTensor:(MPSGraphTensor*)tensor
                              widthAxis:(NSUInteger)width
                             heightAxis:(NSUInteger)height
                              depthAxis:(NSUInteger)depth
                              blockSize:(NSUInteger)size
                   usePixelShuffleOrder:(BOOL)order
                                   name:(NSString*)name {
  const Sizes axes{int64_t(depth), int64_t(height), int64_t(width)};
  return add_blocks(self, tensor, axes, order, size, at::pixel_shuffle, name);
}

@end
