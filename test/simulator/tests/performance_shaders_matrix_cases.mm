// MPSMatrix and its kernels, and MPSCommandBuffer.
#import "metal_objects.h"

#include "foundation_checks.h"
#include "metal/command.h"
#include "support/error.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

CASE(matrix_misuse_is_named) {
  EXPECT_VIOLATION(
      "+[MPSMatrixDescriptor matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:]",
      "rows of 4 bytes for 2 elements of 4",
      { [MPSMatrixDescriptor matrixDescriptorWithRows:2 columns:2 rowBytes:4 dataType:MPSDataTypeFloat32]; });
  const auto matrix = [](NSUInteger length) {
    MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:2
                                                                            columns:2
                                                                           rowBytes:8
                                                                           dataType:MPSDataTypeFloat32];
    return [[[MPSMatrix alloc] initWithBuffer:shared_buffer(length) offset:0 descriptor:descriptor] autorelease];
  };
  EXPECT_VIOLATION("-[MPSMatrix initWithBuffer:offset:descriptor:]", "ends at byte 16, the buffer at byte 12", {
    matrix(12);
  });
  id<MTLCommandBuffer> commands = [metal_queue() commandBuffer];
  MPSMatrix* square = matrix(16);
  MPSMatrixDecompositionLU* decomposition = [[[MPSMatrixDecompositionLU alloc] initWithDevice:metal_device() rows:2
                                                                                      columns:2] autorelease];
  EXPECT_VIOLATION(
      "-[MPSMatrixDecompositionLU encodeToCommandBuffer:sourceMatrix:resultMatrix:pivotIndices:status:]", "pivots", {
        [decomposition encodeToCommandBuffer:commands
                                sourceMatrix:square
                                resultMatrix:square
                                pivotIndices:square
                                      status:nil];
      });
  MPSMatrixSolveTriangular* solver = [[[MPSMatrixSolveTriangular alloc] initWithDevice:metal_device()
                                                                                 right:NO
                                                                                 upper:YES
                                                                             transpose:NO
                                                                                  unit:NO
                                                                                 order:2
                                                                numberOfRightHandSides:3
                                                                                 alpha:1] autorelease];
  EXPECT_VIOLATION("-[MPSMatrixSolveTriangular encodeToCommandBuffer:sourceMatrix:rightHandSideMatrix:solutionMatrix:]",
                   "not 2 x 3",
                   {
                     [solver encodeToCommandBuffer:commands
                                      sourceMatrix:square
                               rightHandSideMatrix:square
                                    solutionMatrix:square];
                   });
}

CASE(commit_and_continue_starts_the_work_so_far) {
  id<MTLCommandQueue> queue = metal_queue();
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue];
  id<MTLCommandBuffer> first = [[buffer.rootCommandBuffer retain] autorelease];
  id<MTLBuffer> values = float_buffer(1);
  append_command(buffer, {"first", [=] { floats(values)[0] += 1; }});
  [buffer commitAndContinue];
  CHECK(buffer.rootCommandBuffer != first);
  CHECK(buffer.commandQueue == queue);
  [first waitUntilCompleted];
  CHECK_EQUAL(floats(values)[0], 1);
  append_command(buffer, {"second", [=] { floats(values)[0] *= 10; }});
  __block id<MTLCommandBuffer> completed = nil;
  [buffer addCompletedHandler:^(id<MTLCommandBuffer> root) {
    completed = root;
  }];
  id<MTLCommandBuffer> second = buffer.rootCommandBuffer;
  finish(buffer);
  CHECK(completed == second);
  CHECK_EQUAL(floats(values)[0], 10);
  CHECK(buffer.status == MTLCommandBufferStatusCompleted);
  CHECK([buffer conformsToProtocol:@protocol(MTLCommandBuffer)]);
}

CASE(failure_on_the_gpu_leaves_a_usable_command_buffer) {
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:metal_queue()];
  append_command(buffer, {"a test", [] { unsupported("Something"); }});
  [buffer commit];
  CHECK_UNSUPPORTED("Something is not simulated", [buffer waitUntilCompleted]);
  id<MTLBuffer> values = float_buffer(1);
  append_command(buffer, {"after", [=] { floats(values)[0] = 3; }});
  finish(buffer);
  CHECK_EQUAL(floats(values)[0], 3);
}

CASE(failure_on_the_gpu_passes_a_dispatch_queue) {
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:metal_queue()];
  const dispatch_queue_t queue = dispatch_queue_create("waiting", nullptr);
  // The thread that waits must be the one to free the exception, however slow the GPU's thread is.
  const Setting<unsigned> delay(settings().delay_microseconds, 2000);
  for (int kind = 0; kind < 3; ++kind) {
    append_command(buffer, {"a test", [kind] {
                              TORCH_CHECK(kind != 0, "wrong shape");
                              TORCH_CHECK_NOT_IMPLEMENTED(kind != 1, "no such kernel");
                              throw std::runtime_error("broken shader");
                            }});
    [buffer commit];
    const auto wait = [&] {
      dispatch_sync(queue, ^{
        [buffer waitUntilCompleted];
      });
    };
    if (kind == 0) {
      CHECK_THROWS(ExecutionError, "wrong shape", wait());
    } else if (kind == 1) {
      CHECK_UNSUPPORTED("MPS simulator: no such kernel", wait());
    } else {
      CHECK_THROWS(ExecutionError, "broken shader", wait());
    }
  }
  dispatch_release(queue);
}
