// Operations on the shape of tensors.
#include "graph/elementwise.h"
#include "graph/graph_state.h"
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

std::vector<MPSGraphTensor*> to_vector(NSArray<MPSGraphTensor*>* tensors) {
  std::vector<MPSGraphTensor*> result;
  for (MPSGraphTensor* tensor in tensors) {
    result.push_back(tensor);
  }
  return result;
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

NSArray<MPSGraphTensor*>* add_split(MPSGraph* graph,
                                    MPSGraphTensor* tensor,
                                    size_t count,
                                    std::function<std::vector<int64_t>(int64_t)> sizes_of,
                                    int64_t axis,
                                    NSString* name) {
  return add_operations(
      graph, "split", {tensor}, count, name, [axis, sizes_of = std::move(sizes_of)](const Tensors& inputs) {
        const int64_t position = wrap_axis(axis, inputs[0].dim());
        return inputs[0].split_with_sizes(sizes_of(inputs[0].size(position)), position);
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
  return add_concatenation(self, to_vector(tensors), dimension, false, name);
}

- (MPSGraphTensor*)concatTensors:(NSArray<MPSGraphTensor*>*)tensors
                       dimension:(NSInteger)dimension
                      interleave:(BOOL)interleave
                            name:(NSString*)name {
  COUNT_CALL();
  return add_concatenation(self, to_vector(tensors), dimension, interleave, name);
}

- (MPSGraphTensor*)stackTensors:(NSArray<MPSGraphTensor*>*)tensors axis:(NSInteger)axis name:(NSString*)name {
  COUNT_CALL();
  auto inputs = to_vector(tensors);
  check_same_type("stack", inputs);
  return add_operation(self, "stack", std::move(inputs), name, [axis](const Tensors& inputs) {
    return at::stack(inputs, wrap_axis(axis, inputs[0].dim() + 1));
  });
}

- (NSArray<MPSGraphTensor*>*)splitTensor:(MPSGraphTensor*)tensor
                               numSplits:(NSUInteger)numSplits
                                    axis:(NSInteger)axis
                                    name:(NSString*)name {
  COUNT_CALL();
  return add_split(
      self,
      tensor,
      numSplits,
      [numSplits](int64_t size) {
        if (size % static_cast<int64_t>(numSplits)) {
          violation("-[MPSGraph splitTensor:numSplits:axis:name:]: %lld elements make no %zu equal parts",
                    static_cast<long long>(size),
                    static_cast<size_t>(numSplits));
        }
        return std::vector<int64_t>(numSplits, size / static_cast<int64_t>(numSplits));
      },
      axis,
      name);
}

- (NSArray<MPSGraphTensor*>*)splitTensor:(MPSGraphTensor*)tensor
                              splitSizes:(NSArray<NSNumber*>*)splitSizes
                                    axis:(NSInteger)axis
                                    name:(NSString*)name {
  COUNT_CALL();
  return add_split(
      self, tensor, splitSizes.count, [sizes = to_sizes(splitSizes)](int64_t) { return sizes; }, axis, name);
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
