// Blocks of an image moved into its channels and back.
#include "graph/operation.h"
#include "support/counters.h"

using namespace mps_simulator;
using namespace mps_simulator::graph;

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
