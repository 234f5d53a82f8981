// MPSMatrix and its kernels, and MPSCommandBuffer.
#import "metal_objects.h"

#include "foundation_checks.h"
#include "metal/command.h"
#include "support/error.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <cmath>
#include <thread>

#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

id<MTLBuffer> buffer_of(const std::vector<float>& values) {
  id<MTLBuffer> buffer = shared_buffer(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(), floats(buffer));
  return buffer;
}

MPSMatrix* matrix_of(id<MTLBuffer> buffer, NSUInteger rows, NSUInteger columns, NSUInteger matrices = 1) {
  MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:rows
                                                                          columns:columns
                                                                         matrices:matrices
                                                                         rowBytes:columns * sizeof(float)
                                                                      matrixBytes:rows * columns * sizeof(float)
                                                                         dataType:MPSDataTypeFloat32];
  return [[[MPSMatrix alloc] initWithBuffer:buffer descriptor:descriptor] autorelease];
}

MPSMatrix* pivots_of(id<MTLBuffer> buffer, NSUInteger count) {
  MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:1
                                                                          columns:count
                                                                         rowBytes:count * sizeof(uint32_t)
                                                                         dataType:MPSDataTypeUInt32];
  return [[[MPSMatrix alloc] initWithBuffer:buffer descriptor:descriptor] autorelease];
}

// Of two unknowns.
MPSMatrixSolveTriangular* solver(BOOL right, BOOL upper, BOOL transpose, BOOL unit, double alpha) {
  return [[[MPSMatrixSolveTriangular alloc] initWithDevice:metal_device()
                                                     right:right
                                                     upper:upper
                                                 transpose:transpose
                                                      unit:unit
                                                     order:2
                                    numberOfRightHandSides:1
                                                     alpha:alpha] autorelease];
}

void run(void (^encode)(id<MTLCommandBuffer> buffer)) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  encode(buffer);
  finish(buffer);
}

void check_close(id<MTLBuffer> buffer, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::fabs(floats(buffer)[i] - expected[i]) > 1e-5f) {
      fail(__FILE__,
           __LINE__,
           "element " + std::to_string(i) + " is " + std::to_string(floats(buffer)[i]) + ", not " +
               std::to_string(expected[i]));
    }
  }
}

} // namespace

CASE(matrix_descriptor_is_checked) {
  EXPECT_VIOLATION(
      "+[MPSMatrixDescriptor matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:]",
      "rows of 4 bytes for 2 elements of 4",
      { [MPSMatrixDescriptor matrixDescriptorWithRows:2 columns:2 rowBytes:4 dataType:MPSDataTypeFloat32]; });
  EXPECT_VIOLATION("-[MPSMatrix initWithBuffer:offset:descriptor:]", "ends at byte 16, the buffer at byte 12", {
    matrix_of(shared_buffer(12), 2, 2);
  });
}

CASE(lu_decomposition_with_pivots) {
  id<MTLBuffer> buffer = buffer_of({1, 2, 4, 3});
  MPSMatrix* matrix = matrix_of(buffer, 2, 2);
  id<MTLBuffer> pivots = shared_buffer(8), status = shared_buffer(4);
  MPSMatrixDecompositionLU* kernel = [[[MPSMatrixDecompositionLU alloc] initWithDevice:metal_device() rows:2
                                                                               columns:2] autorelease];
  run(^(id<MTLCommandBuffer> commands) {
    [kernel encodeToCommandBuffer:commands
                     sourceMatrix:matrix
                     resultMatrix:matrix
                     pivotIndices:pivots_of(pivots, 2)
                           status:status];
  });
  check_close(buffer, {4, 3, 0.25, 1.25});
  CHECK_EQUAL(static_cast<uint32_t*>(pivots.contents)[0], 1);
  CHECK_EQUAL(static_cast<uint32_t*>(pivots.contents)[1], 1);
  CHECK_EQUAL(*static_cast<int*>(status.contents), MPSMatrixDecompositionStatusSuccess);
}

CASE(lu_decomposition_of_a_singular_matrix) {
  id<MTLBuffer> buffer = buffer_of({1, 2, 2, 4});
  MPSMatrix* matrix = matrix_of(buffer, 2, 2);
  id<MTLBuffer> pivots = shared_buffer(8), status = shared_buffer(4);
  MPSMatrixDecompositionLU* kernel = [[[MPSMatrixDecompositionLU alloc] initWithDevice:metal_device() rows:2
                                                                               columns:2] autorelease];
  run(^(id<MTLCommandBuffer> commands) {
    [kernel encodeToCommandBuffer:commands
                     sourceMatrix:matrix
                     resultMatrix:matrix
                     pivotIndices:pivots_of(pivots, 2)
                           status:status];
    EXPECT_VIOLATION(
        "-[MPSMatrixDecompositionLU encodeToCommandBuffer:sourceMatrix:resultMatrix:pivotIndices:status:]", "pivots", {
          [kernel encodeToCommandBuffer:commands
                           sourceMatrix:matrix
                           resultMatrix:matrix
                           pivotIndices:matrix
                                 status:status];
        });
  });
  CHECK_EQUAL(*static_cast<int*>(status.contents), MPSMatrixDecompositionStatusSingular);
}

// A x = b with A = {{2, 1}, {0, 4}}, in all ways to say it.
CASE(triangular_solve) {
  struct Way {
    BOOL right, upper, transpose, unit;
    std::vector<float> source, known, expected;
  };
  const Way ways[] = {
      {NO, YES, NO, NO, {2, 1, 9, 4}, {4, 8}, {1, 2}},
      {NO, NO, YES, NO, {2, 9, 1, 4}, {4, 8}, {1, 2}},
      {NO, NO, NO, NO, {2, 9, 1, 4}, {4, 10}, {2, 2}},
      {NO, YES, NO, YES, {9, 1, 9, 9}, {4, 8}, {-4, 8}},
      {YES, YES, NO, NO, {2, 1, 9, 4}, {4, 10}, {2, 2}},
  };
  for (const auto& way : ways) {
    id<MTLBuffer> solution = shared_buffer(8);
    const NSUInteger rows = way.right ? 1 : 2;
    MPSMatrixSolveTriangular* kernel = solver(way.right, way.upper, way.transpose, way.unit, 2);
    std::vector<float> half = way.known;
    for (float& value : half) {
      value /= 2;
    }
    MPSMatrix* source = matrix_of(buffer_of(way.source), 2, 2);
    MPSMatrix* known = matrix_of(buffer_of(half), rows, 3 - rows);
    MPSMatrix* unknown = matrix_of(solution, rows, 3 - rows);
    run(^(id<MTLCommandBuffer> commands) {
      [kernel encodeToCommandBuffer:commands sourceMatrix:source rightHandSideMatrix:known solutionMatrix:unknown];
    });
    check_close(solution, way.expected);
  }
}

CASE(triangular_solve_of_a_batch) {
  MPSMatrix* source = matrix_of(buffer_of({2, 0, 0, 2, 4, 0, 0, 4, 8, 0, 0, 8}), 2, 2, 3);
  MPSMatrix* known = matrix_of(buffer_of({8, 8, 8, 8, 8, 8}), 2, 1, 3);
  id<MTLBuffer> solution = buffer_of({0, 0, 0, 0, 0, 0});
  MPSMatrix* unknown = matrix_of(solution, 2, 1, 3);
  MPSMatrixSolveTriangular* kernel = solver(NO, YES, NO, NO, 1);
  run(^(id<MTLCommandBuffer> commands) {
    kernel.batchStart = 1;
    kernel.batchSize = 1;
    [kernel encodeToCommandBuffer:commands sourceMatrix:source rightHandSideMatrix:known solutionMatrix:unknown];
  });
  check_close(solution, {0, 0, 2, 2, 0, 0});
  run(^(id<MTLCommandBuffer> commands) {
    kernel.batchStart = 0;
    kernel.batchSize = NSUIntegerMax;
    [kernel encodeToCommandBuffer:commands sourceMatrix:source rightHandSideMatrix:known solutionMatrix:unknown];
    kernel.batchSize = 4;
    EXPECT_VIOLATION(
        "-[MPSMatrixSolveTriangular encodeToCommandBuffer:sourceMatrix:rightHandSideMatrix:solutionMatrix:]",
        "4 matrices",
        {
          [kernel encodeToCommandBuffer:commands sourceMatrix:source rightHandSideMatrix:known solutionMatrix:unknown];
        });
  });
  check_close(solution, {4, 4, 2, 2, 1, 1});
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
