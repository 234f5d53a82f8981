#include "graph/operation.h"
#include "performance_shaders/encode.h"
#include "performance_shaders/nd_array.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/matmul.h>

using namespace mps_simulator;

@implementation MPSNDArrayMultiaryBase

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  VIOLATION("use -initWithDevice:sourceCount:");
}

- (instancetype)initWithDevice:(id<MTLDevice>)device sourceCount:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE(count > 0, "there are no sources");
  if ((self = [super initWithDevice:device])) {
    _sourceCount = count;
  }
  return self;
}

@end

@implementation MPSNDArrayUnaryKernel

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  return [super initWithDevice:device sourceCount:1];
}

@end

@implementation MPSNDArrayMultiaryKernel

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceArrays:(NSArray*)sourceArrays
             destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  [self encodeTo:commandBuffer encoder:nil sources:sourceArrays destination:destination function:__func__];
}

- (void)encodeToCommandEncoder:(id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceArrays:(NSArray*)sourceArrays
              destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  [self encodeTo:commandBuffer encoder:encoder sources:sourceArrays destination:destination function:__func__];
}

- (void)encodeTo:(id<MTLCommandBuffer>)commandBuffer
         encoder:(id<MTLComputeCommandEncoder>)encoder
         sources:(NSArray*)sources
     destination:(MPSNDArray*)destination
        function:(const char*)function {
  unsupported("-[%s encodeToCommandBuffer:sourceArrays:destinationArray:]", object_getClassName(self));
}

@end

namespace {

graph::Sizes product_sizes(const graph::Sizes& left, const graph::Sizes& right, const char* function) {
  if (left.size() < 2 || right.size() < 2 || left.back() != right[right.size() - 2]) {
    violation("%s: %zu and %zu dimensions make no matrix product", function, left.size(), right.size());
  }
  const auto batch_of = [](at::IntArrayRef sizes) { return sizes.slice(0, sizes.size() - 2); };
  auto sizes = at::infer_size(batch_of(left), batch_of(right));
  sizes.push_back(left[left.size() - 2]);
  sizes.push_back(right.back());
  return sizes;
}

} // namespace

@implementation MPSNDArrayMatrixMultiplication

- (instancetype)initWithDevice:(id<MTLDevice>)device sourceCount:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE(count == 2 || count == 3, "%lu sources, but a product has two and a bias makes three", count);
  return [super initWithDevice:device sourceCount:count];
}

- (void)encodeTo:(id<MTLCommandBuffer>)commandBuffer
         encoder:(id<MTLComputeCommandEncoder>)encoder
         sources:(NSArray*)sources
     destination:(MPSNDArray*)destinationArray
        function:(const char*)function {
  if (sources.count != self.sourceCount || destinationArray == nil) {
    violation("%s: %lu sources for a kernel of %lu, or no destination", function, sources.count, self.sourceCount);
  }
  const NDArrayView left = view_of(sources[0]);
  const NDArrayView right = view_of(sources[1]);
  const NDArrayView bias = self.sourceCount > 2 ? view_of(sources[2]) : NDArrayView{};
  const NDArrayView destination = view_of(destinationArray);
  const auto expected = product_sizes(left.sizes, right.sizes, function);
  if (left.data_type != right.data_type) {
    violation("%s: the sources have different data types", function);
  }
  if (c10::multiply_integers(expected) != c10::multiply_integers(destination.sizes) || destination.sizes.size() < 2 ||
      destination.sizes.back() != expected.back()) {
    violation("%s: the destination has shape %s, the product %s",
              function,
              [graph::to_shape(destination.sizes) componentsJoinedByString:@"x"].UTF8String,
              [graph::to_shape(expected) componentsJoinedByString:@"x"].UTF8String);
  }
  // The dispatch for the bias depends on that of the product, so that an encoder must run them in order.
  const bool opens_encoder = bias.buffer != nil && encoder == nil;
  if (opens_encoder) {
    encoder = [commandBuffer computeCommandEncoder];
  }
  const auto multiply = [=] {
    const at::Tensor target = destination.tensor();
    target.copy_(at::matmul(left.tensor(), right.tensor()).reshape(target.sizes()));
  };
  const auto add_bias = [=] {
    const at::Tensor target = destination.tensor();
    target.add_(bias.tensor().expand(expected).reshape(target.sizes()));
  };
  encode_kernel(commandBuffer,
                encoder,
                {function, multiply, {left.access(false), right.access(false), destination.access(true)}});
  if (bias.buffer != nil) {
    encode_kernel(commandBuffer, encoder, {function, add_bias, {bias.access(false), destination.access(true)}});
  }
  if (opens_encoder) {
    [encoder endEncoding];
  }
}

@end
