// MPSNDArray, its descriptors, views and kernels.
#import "metal_objects.h"

#include "foundation_checks.h"
#include "performance_shaders/nd_array.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

using Integers = std::vector<int64_t>;

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

void run(void (^encode)(id<MTLCommandBuffer> buffer)) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  encode(buffer);
  finish(buffer);
}

} // namespace

CASE(array_shape_and_dimensions_run_opposite_ways) {
  MPSNDArray* array = counting_array(@[ @2, @3, @4 ], 24);
  CHECK_EQUAL(array.numberOfDimensions, 3);
  CHECK_EQUAL([array lengthOfDimension:0], 4);
  CHECK_EQUAL([array lengthOfDimension:2], 2);
  CHECK_EQUAL([array lengthOfDimension:7], 1);
  CHECK_STRING([[array.descriptor getShape] componentsJoinedByString:@","], "2,3,4");
  const NDArrayView view = view_of(array);
  CHECK(view.sizes == (Integers{2, 3, 4}));
  CHECK(view.strides == (Integers{12, 4, 1}));
}

CASE(array_from_buffer_and_offset) {
  id<MTLBuffer> buffer = float_buffer(10);
  MPSNDArray* array = [[[MPSNDArray alloc] initWithBuffer:buffer offset:16 descriptor:packed(@[ @2, @3 ])] autorelease];
  CHECK(array.userBuffer == buffer);
  CHECK(read(array, 6) == (std::vector<float>{4, 5, 6, 7, 8, 9}));
  EXPECT_VIOLATION("-[MPSNDArray initWithBuffer:offset:descriptor:]", "beyond the buffer's length", {
    [[MPSNDArray alloc] initWithBuffer:buffer offset:44 descriptor:packed(@[ @1 ])];
  });
  EXPECT_VIOLATION("-[MPSNDArray initWithBuffer:offset:descriptor:]", "no multiple", {
    [[MPSNDArray alloc] initWithBuffer:buffer offset:6 descriptor:packed(@[ @1 ])];
  });
  MPSNDArray* too_large = [[[MPSNDArray alloc] initWithBuffer:buffer offset:20
                                                   descriptor:packed(@[ @2, @3 ])] autorelease];
  EXPECT_VIOLATION(
      "-[MPSNDArray readBytes:strideBytes:]", "end at byte 44, the buffer at byte 40", { read(too_large, 6); });
}

CASE(array_of_the_device_has_no_user_buffer) {
  MPSNDArray* array = [[[MPSNDArray alloc] initWithDevice:metal_device() descriptor:packed(@[ @3 ])] autorelease];
  CHECK(array.userBuffer == nil);
  float values[] = {1, 2, 3};
  [array writeBytes:values strideBytes:nullptr];
  CHECK(read(array, 3) == (std::vector<float>{1, 2, 3}));
  MPSNDArray* scalar = [[[MPSNDArray alloc] initWithDevice:metal_device() scalar:2.5] autorelease];
  CHECK(read(scalar, 1) == std::vector<float>{2.5});
  MPSNDArray* empty = [[[MPSNDArray alloc] initWithDevice:metal_device() descriptor:packed(@[ @2, @0 ])] autorelease];
  CHECK(view_of(empty).sizes == (Integers{2, 0}));
}

CASE(array_rows_are_padded_unless_packed) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32 shape:@[ @2, @3 ]];
  MPSNDArray* array = [[[MPSNDArray alloc] initWithDevice:metal_device() descriptor:descriptor] autorelease];
  CHECK(view_of(array).strides[0] > 3);
  float values[] = {1, 2, 3, 4, 5, 6};
  [array writeBytes:values strideBytes:nullptr];
  CHECK(read(array, 6) == (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

CASE(array_bytes_with_strides) {
  MPSNDArray* array = counting_array(@[ @2, @3 ], 6);
  float column_major[6];
  NSInteger strides[] = {2 * sizeof(float), sizeof(float)};
  [array readBytes:column_major strideBytes:strides];
  CHECK(std::vector<float>(column_major, column_major + 6) == (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_VIOLATION("-[MPSNDArray readBytes:strideBytes:]", "stride of 6 bytes", {
    NSInteger odd[] = {4, 6};
    [array readBytes:column_major strideBytes:odd];
  });
}

CASE(array_view_transposed_and_sliced) {
  MPSNDArray* array = counting_array(@[ @2, @3, @4 ], 24);
  MPSNDArrayDescriptor* descriptor = array.descriptor;
  [descriptor transposeDimension:0 withDimension:2];
  MPSNDArray* view = [array arrayViewWithCommandBuffer:nil
                                            descriptor:descriptor
                                              aliasing:MPSAliasingStrategyShallAlias];
  CHECK(view_of(view).sizes == (Integers{4, 3, 2}));
  CHECK(view_of(view).strides == (Integers{1, 4, 12}));
  CHECK(view.parent == array);
  CHECK(view.userBuffer == array.userBuffer);
  [descriptor sliceDimension:2 withSubrange:{1, 2}];
  view = [array arrayViewWithDescriptor:descriptor];
  CHECK(view_of(view).sizes == (Integers{2, 3, 2}));
  CHECK_EQUAL(view_of(view).byte_offset, 4);
  CHECK(read(view, 12) == (std::vector<float>{1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22}));
  EXPECT_VIOLATION("-[MPSNDArrayDescriptor sliceDimension:withSubrange:]", "beyond the length 4", {
    [descriptor sliceDimension:2 withSubrange:{3, 2}];
  });
  EXPECT_VIOLATION("-[MPSNDArrayDescriptor transposeDimension:withDimension:]", "dimension 3 of 3", {
    [descriptor transposeDimension:0 withDimension:3];
  });
}

CASE(array_view_permuted) {
  MPSNDArray* array = counting_array(@[ @2, @3, @4 ], 24);
  MPSNDArrayDescriptor* descriptor = array.descriptor;
  NSUInteger order[] = {1, 2, 0};
  [descriptor permuteWithDimensionOrder:order];
  MPSNDArray* view = [array arrayViewWithDescriptor:descriptor];
  CHECK(view_of(view).sizes == (Integers{4, 2, 3}));
  CHECK(view_of(view).strides == (Integers{1, 12, 4}));
  CHECK_EQUAL([descriptor dimensionOrder][0], 1);
}

CASE(array_view_with_strides) {
  MPSNDArray* array = counting_array(@[ @12 ], 12);
  MPSNDArray* view = [array arrayViewWithShape:@[ @2, @2, @1 ] strides:@[ @6, @2, @1 ]];
  CHECK(read(view, 4) == (std::vector<float>{0, 2, 6, 8}));
  MPSNDArray* broadcast = [array arrayViewWithShape:@[ @3, @2 ] strides:@[ @0, @1 ]];
  CHECK(read(broadcast, 6) == (std::vector<float>{0, 1, 0, 1, 0, 1}));
  NSUInteger sizes[] = {2, 3};
  NSUInteger strides[] = {1, 4};
  MPSNDArray* counted = [array arrayViewWithDimensionCount:2 dimensionSizes:sizes strides:strides];
  CHECK(read(counted, 6) == (std::vector<float>{0, 1, 4, 5, 8, 9}));
  EXPECT_VIOLATION("-[MPSNDArray arrayViewWithShape:strides:]", "must have stride 1, not 2", {
    [array arrayViewWithShape:@[ @2 ] strides:@[ @2 ]];
  });
  EXPECT_VIOLATION("-[MPSNDArray arrayViewWithShape:strides:]", "end at byte 52", {
    [array arrayViewWithShape:@[ @2, @1 ] strides:@[ @12, @1 ]];
  });
}

CASE(array_identity_reshapes_without_a_copy) {
  MPSNDArrayIdentity* identity = [[[MPSNDArrayIdentity alloc] initWithDevice:metal_device()] autorelease];
  MPSNDArray* array = counting_array(@[ @12 ], 12);
  MPSNDArray* strided = [array arrayViewWithShape:@[ @2, @2, @1 ] strides:@[ @6, @2, @1 ]];
  MPSNDArray* view = [identity reshapeWithCommandBuffer:nil sourceArray:strided shape:@[ @2, @2 ] destinationArray:nil];
  CHECK(view_of(view).strides == (Integers{6, 2}));
  CHECK(view_of(view).buffer == view_of(array).buffer);
  // Four elements at 0, 2, 6, 8 are no row, so this needs a command buffer.
  CHECK([identity reshapeWithCommandBuffer:nil sourceArray:strided shape:@[ @4 ] destinationArray:nil] == nil);
  __block MPSNDArray* copy = nil;
  run(^(id<MTLCommandBuffer> buffer) {
    copy = [[identity reshapeWithCommandBuffer:buffer sourceArray:strided shape:@[ @4 ] destinationArray:nil] retain];
  });
  CHECK(read([copy autorelease], 4) == (std::vector<float>{0, 2, 6, 8}));
  EXPECT_VIOLATION("-[MPSNDArrayIdentity reshapeWithCommandBuffer:sourceArray:shape:destinationArray:]",
                   "4 elements cannot take a shape of 5",
                   { [identity reshapeWithCommandBuffer:nil sourceArray:strided shape:@[ @5 ] destinationArray:nil]; });
}

CASE(array_matrix_multiplication) {
  MPSNDArray* left = counting_array(@[ @2, @2, @3 ], 12);
  MPSNDArray* right = counting_array(@[ @3, @2 ], 6);
  MPSNDArrayMatrixMultiplication* product = [[[MPSNDArrayMatrixMultiplication alloc] initWithDevice:metal_device()
                                                                                        sourceCount:2] autorelease];
  product.alpha = 2;
  MPSNDArray* result = counting_array(@[ @2, @2, @2 ], 8);
  run(^(id<MTLCommandBuffer> buffer) {
    [product encodeToCommandBuffer:buffer sourceArrays:@[ left, right ] destinationArray:result];
  });
  CHECK(read(result, 8) == (std::vector<float>{20, 26, 56, 80, 92, 134, 128, 188}));
  MPSNDArray* wrong = counting_array(@[ @2, @3 ], 6);
  run(^(id<MTLCommandBuffer> buffer) {
    EXPECT_VIOLATION(
        "-[MPSNDArrayMultiaryKernel encodeToCommandBuffer:sourceArrays:destinationArray:]", "the product 2x2x2", {
          [product encodeToCommandBuffer:buffer sourceArrays:@[ left, right ] destinationArray:wrong];
        });
  });
}

CASE(array_kernel_runs_between_the_dispatches_of_its_encoder) {
  MPSNDArray* left = counting_array(@[ @2, @2 ], 4);
  id<MTLBuffer> result = float_buffer(4, 100);
  MPSNDArray* product_array = [[[MPSNDArray alloc] initWithBuffer:result offset:0
                                                       descriptor:packed(@[ @2, @2 ])] autorelease];
  MPSNDArrayMatrixMultiplication* product = [[[MPSNDArrayMatrixMultiplication alloc] initWithDevice:metal_device()
                                                                                        sourceCount:2] autorelease];
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

CASE(array_export_converts) {
  MPSNDArray* array = counting_array(@[ @2, @2 ], 4);
  id<MTLBuffer> integers = shared_buffer(32);
  run(^(id<MTLCommandBuffer> buffer) {
    [array exportDataWithCommandBuffer:buffer
                              toBuffer:integers
                   destinationDataType:MPSDataTypeInt64
                                offset:0
                            rowStrides:nullptr];
  });
  CHECK_EQUAL(static_cast<int64_t*>(integers.contents)[3], 3);
}

CASE(array_kernels_keep_their_buffers_alive) {
  MPSNDArrayIdentity* identity = [[[MPSNDArrayIdentity alloc] initWithDevice:metal_device()] autorelease];
  MPSNDArray* result = counting_array(@[ @4 ], 4);
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  @autoreleasepool {
    MPSNDArray* source = [[MPSNDArray alloc] initWithDevice:metal_device() descriptor:packed(@[ @4 ])];
    float values[] = {5, 6, 7, 8};
    [source writeBytes:values strideBytes:nullptr];
    [identity encodeToCommandBuffer:buffer sourceArray:source destinationArray:result];
    [source release];
  }
  finish(buffer);
  CHECK(read(result, 4) == (std::vector<float>{5, 6, 7, 8}));
}

CASE(array_data_types_have_apples_values) {
  CHECK_EQUAL(MPSDataTypeFloat32, 0x10000020u);
  CHECK_EQUAL(MPSDataTypeFloat16, 0x10000010u);
  CHECK_EQUAL(MPSDataTypeComplexFloat32, 0x11000040u);
  CHECK_EQUAL(MPSDataTypeComplexFloat16, 0x11000020u);
  CHECK_EQUAL(MPSDataTypeInt64, 0x20000040u);
  CHECK_EQUAL(MPSDataTypeBool, 0x80000008u);
  CHECK_EQUAL(MPSDataTypeBFloat16, 0x90000010u);
}
