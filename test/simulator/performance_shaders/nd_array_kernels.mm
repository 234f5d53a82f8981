#include "performance_shaders/encode.h"
#include "performance_shaders/nd_array.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ops/matmul.h>

#include <algorithm>

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

- (void)checkSources:(NSArray<MPSNDArray*>*)sources function:(const char*)function {
  if (sources.count != _sourceCount) {
    violation("%s: %lu source arrays for a kernel of %lu", function, sources.count, _sourceCount);
  }
}

@end

@interface MPSNDArrayMultiaryKernel ()
// For subclasses.
- (std::vector<int64_t>)resultSizes:(NSArray<MPSNDArray*>*)sourceArrays function:(const char*)function;
- (void)encodeTo:(id<MTLCommandBuffer>)commandBuffer
         encoder:(id<MTLComputeCommandEncoder>)encoder
         sources:(NSArray<MPSNDArray*>*)sourceArrays
     destination:(MPSNDArray*)destination
        function:(const char*)function;
@end

@implementation MPSNDArrayMultiaryKernel

- (std::vector<int64_t>)resultSizes:(NSArray<MPSNDArray*>*)sourceArrays function:(const char*)function {
  unsupported("-[%s encodeToCommandBuffer:sourceArrays:]", object_getClassName(self));
}

- (void)encodeTo:(id<MTLCommandBuffer>)commandBuffer
         encoder:(id<MTLComputeCommandEncoder>)encoder
         sources:(NSArray<MPSNDArray*>*)sourceArrays
     destination:(MPSNDArray*)destination
        function:(const char*)function {
  unsupported("-[%s encodeToCommandBuffer:sourceArrays:destinationArray:]", object_getClassName(self));
}

- (MPSNDArray*)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays {
  COUNT_CALL();
  [self checkSources:sourceArrays function:__func__];
  MPSNDArray* destination =
      new_array(self.device, [self resultSizes:sourceArrays function:__func__], sourceArrays[0].dataType);
  [self encodeTo:cmdBuf encoder:nil sources:sourceArrays destination:destination function:__func__];
  return destination;
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                 sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
             destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  [self checkSources:sourceArrays function:__func__];
  VALIDATE(destination != nil, "the destination is nil");
  [self encodeTo:cmdBuf encoder:nil sources:sourceArrays destination:destination function:__func__];
}

- (void)encodeToCommandEncoder:(id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceArrays:(NSArray<MPSNDArray*>*)sourceArrays
              destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  [self checkSources:sourceArrays function:__func__];
  VALIDATE(destination != nil, "the destination is nil");
  [self encodeTo:commandBuffer encoder:encoder sources:sourceArrays destination:destination function:__func__];
}

@end

@implementation MPSNDArrayMatrixMultiplication

- (instancetype)initWithDevice:(id<MTLDevice>)device sourceCount:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE(count == 2 || count == 3, "%lu sources, but a product has two and a bias makes three", count);
  if ((self = [super initWithDevice:device sourceCount:count])) {
    _alpha = 1;
    _beta = 1;
  }
  return self;
}

- (std::vector<int64_t>)resultSizes:(NSArray<MPSNDArray*>*)sourceArrays function:(const char*)function {
  const auto left = view_of(sourceArrays[0]).sizes;
  const auto right = view_of(sourceArrays[1]).sizes;
  if (left.size() < 2 || right.size() < 2) {
    violation("%s: a matrix has at least two dimensions", function);
  }
  if (left.back() != right[right.size() - 2]) {
    violation("%s: %ld columns on the left, %ld rows on the right", function, left.back(), right[right.size() - 2]);
  }
  // The batch dimensions broadcast.
  const auto& longer = left.size() > right.size() ? left : right;
  const size_t rank = longer.size();
  std::vector<int64_t> sizes(rank);
  for (size_t i = 0; i + 2 < rank; ++i) {
    const auto length = [&](const std::vector<int64_t>& of) {
      const size_t missing = rank - of.size();
      return i < missing ? 1 : of[i - missing];
    };
    const int64_t a = length(left);
    const int64_t b = length(right);
    if (a != b && a != 1 && b != 1) {
      violation("%s: batches of %ld and %ld matrices", function, a, b);
    }
    sizes[i] = a == 1 ? b : a;
  }
  sizes[rank - 2] = left[left.size() - 2];
  sizes[rank - 1] = right.back();
  return sizes;
}

- (void)encodeTo:(id<MTLCommandBuffer>)commandBuffer
         encoder:(id<MTLComputeCommandEncoder>)encoder
         sources:(NSArray<MPSNDArray*>*)sourceArrays
     destination:(MPSNDArray*)destinationArray
        function:(const char*)function {
  const NDArrayView left = view_of(sourceArrays[0]);
  const NDArrayView right = view_of(sourceArrays[1]);
  const NDArrayView bias = self.sourceCount > 2 ? view_of(sourceArrays[2]) : NDArrayView{};
  const NDArrayView destination = view_of(destinationArray);
  if (left.data_type != right.data_type) {
    violation("%s: the sources have different data types", function);
  }
  const auto expected = [self resultSizes:sourceArrays function:function];
  if (c10::multiply_integers(expected) != c10::multiply_integers(destination.sizes) || destination.sizes.size() < 2 ||
      destination.sizes.back() != expected.back()) {
    violation("%s: the destination has shape %s, the product %s",
              function,
              [to_numbers(destination.sizes) componentsJoinedByString:@"x"].UTF8String,
              [to_numbers(expected) componentsJoinedByString:@"x"].UTF8String);
  }
  const double alpha = _alpha;
  const double beta = _beta;
  // The dispatch for the bias depends on that of the product, so that an encoder must run them in order.
  const bool opens_encoder = bias.buffer != nil && encoder == nil;
  if (opens_encoder) {
    encoder = [commandBuffer computeCommandEncoder];
  }
  encode_kernel(commandBuffer,
                encoder,
                {function,
                 [=] {
                   at::Tensor product = at::matmul(left.tensor(), right.tensor());
                   if (alpha != 1) {
                     product.mul_(alpha);
                   }
                   const at::Tensor target = destination.tensor();
                   target.copy_(product.reshape(target.sizes()));
                 },
                 {left.access(false), right.access(false), destination.access(true)}});
  if (bias.buffer != nil) {
    encode_kernel(commandBuffer,
                  encoder,
                  {function,
                   [=] {
                     const at::Tensor target = destination.tensor();
                     target.add_(bias.tensor().expand(expected).reshape(target.sizes()), beta);
                   },
                   {bias.access(false), destination.access(true)}});
  }
  if (opens_encoder) {
    [encoder endEncoding];
  }
}

@end

@implementation MPSNDArrayUnaryKernel

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  return [super initWithDevice:device sourceCount:1];
}

- (MPSNDArray*)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf sourceArray:(MPSNDArray*)sourceArray {
  unsupported("-[%s encodeToCommandBuffer:sourceArray:]", object_getClassName(self));
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                  sourceArray:(MPSNDArray*)sourceArray
             destinationArray:(MPSNDArray*)destination {
  [self encodeToCommandEncoder:nil commandBuffer:cmdBuf sourceArray:sourceArray destinationArray:destination];
}

- (void)encodeToCommandEncoder:(id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceArray:(MPSNDArray*)sourceArray
              destinationArray:(MPSNDArray*)destination {
  unsupported("-[%s encodeToCommandEncoder:commandBuffer:sourceArray:destinationArray:]", object_getClassName(self));
}

@end

@implementation MPSNDArrayIdentity

- (MPSNDArray*)encodeToCommandBuffer:(id<MTLCommandBuffer>)cmdBuf sourceArray:(MPSNDArray*)sourceArray {
  COUNT_CALL();
  VALIDATE(sourceArray != nil, "the source is nil");
  return copy_with_sizes(sourceArray, view_of(sourceArray).sizes, cmdBuf, __func__);
}

- (void)encodeToCommandEncoder:(id<MTLComputeCommandEncoder>)encoder
                 commandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceArray:(MPSNDArray*)sourceArray
              destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  VALIDATE(sourceArray != nil && destination != nil, "an array is nil");
  VALIDATE(view_of(sourceArray).sizes == view_of(destination).sizes, "source and destination have different shapes");
  VALIDATE(sourceArray.dataType == destination.dataType, "source and destination have different data types");
  encode_copy(commandBuffer, encoder, sourceArray, destination, __func__);
}

- (MPSNDArray*)reshape:(MPSNDArray*)sourceArray
                 sizes:(const std::vector<int64_t>&)sizes
                    on:(id<MTLCommandBuffer>)commandBuffer
               encoder:(id<MTLComputeCommandEncoder>)encoder
                    to:(MPSNDArray*)destinationArray
              function:(const char*)function {
  if (sourceArray == nil) {
    violation("%s: the source is nil", function);
  }
  const auto strides = strides_of_reshape(view_of(sourceArray), sizes, function);
  if (destinationArray == nil && strides) {
    return alias_with_strides(sourceArray, sizes, *strides);
  }
  if (commandBuffer == nil) {
    // This shape needs a copy, which needs a command buffer.
    return nil;
  }
  if (destinationArray == nil) {
    destinationArray = new_array(self.device, sizes, sourceArray.dataType);
  } else if (view_of(destinationArray).sizes != sizes || destinationArray.dataType != sourceArray.dataType) {
    violation("%s: the destination has another shape or data type than the result", function);
  }
  encode_copy(commandBuffer, encoder, sourceArray, destinationArray, function);
  return destinationArray;
}

- (MPSNDArray*)reshapeWithCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                            sourceArray:(MPSNDArray*)sourceArray
                                  shape:(MPSShape*)shape
                       destinationArray:(MPSNDArray*)destinationArray {
  COUNT_CALL();
  return [self reshape:sourceArray
                 sizes:to_integers(shape)
                    on:cmdBuf
               encoder:nil
                    to:destinationArray
              function:__func__];
}

@end
