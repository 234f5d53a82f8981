// MPSNDArray, its descriptors, views and kernels.
#import "metal_objects.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

// Passes all calls on to an encoder of Metal's, as one that records them does.
@interface ForeignEncoder : NSObject {
 @public
  Encoder _encoder;
}
@end

@implementation ForeignEncoder
- (id)forwardingTargetForSelector:(SEL)selector {
  return _encoder;
}
@end

namespace {

MPSNDArrayDescriptor* packed(MPSShape* shape, MPSDataType type = MPSDataTypeFloat32) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:type shape:shape];
  descriptor.preferPackedRows = YES;
  return descriptor;
}

// The numbers 0, 1, … in the given shape.
MPSNDArray* counting_array(MPSShape* shape, NSUInteger count) {
  return [[[MPSNDArray alloc] initWithBuffer:float_buffer(count) offset:0 descriptor:packed(shape)] autorelease];
}

std::vector<float> read(MPSNDArray* array, NSUInteger count) {
  std::vector<float> values(count, -1);
  [array readBytes:values.data() strideBytes:nullptr];
  return values;
}

MPSNDArrayMatrixMultiplication* matrix_multiplication() {
  return [[[MPSNDArrayMatrixMultiplication alloc] initWithDevice:metal_device() sourceCount:2] autorelease];
}

void run(void (^encode)(id<MTLCommandBuffer> buffer)) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  encode(buffer);
  finish(buffer);
}

} // namespace

CASE(array_misuse_is_named) {
  const char* init = "-[MPSNDArray initWithBuffer:offset:descriptor:]";
  id<MTLBuffer> buffer = float_buffer(10);
  const auto make = [&](NSUInteger offset, MPSShape* shape) {
    return [[[MPSNDArray alloc] initWithBuffer:buffer offset:offset descriptor:packed(shape)] autorelease];
  };
  EXPECT_VIOLATION(init, "beyond the buffer's length", { make(44, @[ @1 ]); });
  EXPECT_VIOLATION(init, "no multiple", { make(6, @[ @1 ]); });
  EXPECT_VIOLATION("-[MPSNDArray readBytes:strideBytes:]", "end at byte 44, the buffer at byte 40", {
    read(make(20, @[ @2, @3 ]), 6);
  });
  MPSNDArray* array = counting_array(@[ @12 ], 12);
  const char* view = "-[MPSNDArray arrayViewWithShape:strides:]";
  EXPECT_VIOLATION(view, "must have stride 1, not 2", { [array arrayViewWithShape:@[ @2 ] strides:@[ @2 ]]; });
  EXPECT_VIOLATION(view, "end at byte 52", { [array arrayViewWithShape:@[ @2, @1 ] strides:@[ @12, @1 ]]; });
  MPSNDArrayDescriptor* descriptor = packed(@[ @2, @3, @4 ]);
  EXPECT_VIOLATION("-[MPSNDArrayDescriptor transposeDimension:withDimension:]", "dimension 3 of 3", {
    [descriptor transposeDimension:0 withDimension:3];
  });
  MPSNDArrayIdentity* identity = [[[MPSNDArrayIdentity alloc] initWithDevice:metal_device()] autorelease];
  EXPECT_VIOLATION("-[MPSNDArrayIdentity reshapeWithCommandBuffer:sourceArray:shape:destinationArray:]",
                   "12 elements cannot take a shape of 5",
                   { [identity reshapeWithCommandBuffer:nil sourceArray:array shape:@[ @5 ] destinationArray:nil]; });
  MPSNDArrayMatrixMultiplication* product = matrix_multiplication();
  MPSNDArray* square = counting_array(@[ @2, @2 ], 4);
  run(^(id<MTLCommandBuffer> commands) {
    EXPECT_VIOLATION(
        "-[MPSNDArrayMultiaryKernel encodeToCommandBuffer:sourceArrays:destinationArray:]", "the product 2x2", {
          [product encodeToCommandBuffer:commands sourceArrays:@[ square, square ] destinationArray:array];
        });
  });
}

CASE(array_kernel_runs_between_the_dispatches_of_its_encoder) {
  MPSNDArray* left = counting_array(@[ @2, @2 ], 4);
  id<MTLBuffer> result = float_buffer(4, 100);
  MPSNDArray* product_array = [[[MPSNDArray alloc] initWithBuffer:result offset:0
                                                       descriptor:packed(@[ @2, @2 ])] autorelease];
  MPSNDArrayMatrixMultiplication* product = matrix_multiplication();
  id<MTLBuffer> source = left.userBuffer;
  id<MTLBuffer> sum = float_buffer(4);
  run(^(id<MTLCommandBuffer> buffer) {
    Encoder encoder = [buffer computeCommandEncoder];
    add_with_bias(encoder, source, source);
    // {{1, 2}, {3, 4}} squared
    [product encodeToCommandEncoder:encoder
                      commandBuffer:buffer
                       sourceArrays:@[ left, left ]
                   destinationArray:product_array];
    // nothing is bound behind a kernel object
    EXPECT_VIOLATION("-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]",
                     "no compute pipeline state",
                     { dispatch(encoder, 4, 4); });
    add_with_bias(encoder, result, sum);
    EXPECT_VIOLATION(
        "-[MPSNDArrayMultiaryKernel encodeToCommandBuffer:sourceArrays:destinationArray:]", "has not ended", {
          [product encodeToCommandBuffer:buffer sourceArrays:@[ left, left ] destinationArray:product_array];
        });
    ForeignEncoder* foreign = [[[ForeignEncoder alloc] init] autorelease];
    foreign->_encoder = encoder;
    EXPECT_VIOLATION("-[MPSNDArrayMultiaryKernel encodeToCommandEncoder:commandBuffer:sourceArrays:destinationArray:]",
                     "not the one that is open",
                     {
                       [product encodeToCommandEncoder:(Encoder)foreign
                                         commandBuffer:buffer
                                          sourceArrays:@[ left, left ]
                                      destinationArray:product_array];
                     });
    [encoder endEncoding];
    EXPECT_VIOLATION("-[MPSNDArrayMultiaryKernel encodeToCommandEncoder:commandBuffer:sourceArrays:destinationArray:]",
                     "not the one that is open",
                     {
                       [product encodeToCommandEncoder:encoder
                                         commandBuffer:buffer
                                          sourceArrays:@[ left, left ]
                                      destinationArray:product_array];
                     });
  });
  CHECK(std::vector<float>(floats(sum), floats(sum) + 4) == (std::vector<float>{8, 11, 16, 23}));
}

CASE(array_kernels_keep_their_buffers_alive) {
  MPSNDArrayMatrixMultiplication* product = matrix_multiplication();
  MPSNDArray* result = counting_array(@[ @2, @2 ], 4);
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  @autoreleasepool {
    MPSNDArray* source = [[MPSNDArray alloc] initWithDevice:metal_device() descriptor:packed(@[ @2, @2 ])];
    float values[] = {1, 2, 3, 4};
    [source writeBytes:values strideBytes:nullptr];
    [product encodeToCommandBuffer:buffer sourceArrays:@[ source, source ] destinationArray:result];
    [source release];
  }
  finish(buffer);
  CHECK(read(result, 4) == (std::vector<float>{7, 10, 15, 22}));
}
