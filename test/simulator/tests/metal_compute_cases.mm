// Libraries, pipelines, compute and argument encoders.

#import "metal_objects.h"

#include "support/settings.h"

// nil is passed on purpose.
#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

CASE(violation_argument_encoder) {
  id<MTLFunction> function = kernel(
      R"(
        struct Arguments {
          device float* in [[id(0)]];
          device float* out [[id(1)]];
        };
        kernel void indirect(constant Arguments& arguments [[buffer(3)]]) { arguments.out[0] = arguments.in[0]; })",
      "indirect");
  id<MTLArgumentEncoder> arguments = [[function newArgumentEncoderWithBufferIndex:3] autorelease];
  CHECK_EQUAL(arguments.encodedLength, 16);
  id<MTLBuffer> storage = shared_buffer(64);
  [arguments setArgumentBuffer:storage offset:48];
  EXPECT_VIOLATION("-[MTLArgumentEncoder setBuffer:offset:atIndex:]", "no member with id 7", {
    [arguments setBuffer:float_buffer(8) offset:0 atIndex:7];
  });
  EXPECT_VIOLATION("-[MTLArgumentEncoder setArgumentBuffer:offset:]", "encodedLength", {
    [arguments setArgumentBuffer:storage offset:56];
  });
  EXPECT_VIOLATION("-[MTLFunction newArgumentEncoderWithBufferIndex:]", "no argument buffer at index 0", {
    [function newArgumentEncoderWithBufferIndex:0];
  });
}

// MARK: Violations

CASE(violation_pipeline) {
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]", "no compute pipeline state", {
    run_compute([](Encoder encoder) { dispatch(encoder, 1, 4); });
  });
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder setComputePipelineState:]", "is nil", {
    run_compute([](Encoder encoder) { [encoder setComputePipelineState:(id<MTLComputePipelineState>)nil]; });
  });
}

CASE(violation_threadgroup_size) {
  const auto dispatch_groups = [](MTLSize size) {
    run_compute([&](Encoder encoder) {
      [encoder setComputePipelineState:add_pipeline()];
      [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:size];
    });
  };
  const char* call = "-[MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:]";
  EXPECT_VIOLATION(call, "exceeds the 1024 threads", { dispatch_groups(MTLSizeMake(1025, 1, 1)); });
  EXPECT_VIOLATION(call, "exceeds the 1024 threads", { dispatch_groups(MTLSizeMake(32, 32, 2)); });
  EXPECT_VIOLATION(call, "has a zero", { dispatch_groups(MTLSizeMake(4, 0, 1)); });
}

CASE(violation_missing_binding) {
  const char* call = "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]";
  id<MTLBuffer> data = float_buffer(4);
  EXPECT_VIOLATION(call, "no buffer is bound at index 1 for argument out", {
    run_compute([&](Encoder encoder) {
      bind(encoder, add_pipeline(), {data});
      const float bias = 1;
      [encoder setBytes:&bias length:4 atIndex:2];
      dispatch(encoder, 1, 4);
    });
  });
  EXPECT_VIOLATION(call, "no buffer is bound at index 0 for argument in", {
    run_compute([&](Encoder encoder) {
      bind(encoder, add_pipeline(), {data});
      [encoder setBuffer:(id<MTLBuffer>)nil offset:0 atIndex:0];
      dispatch(encoder, 1, 4);
    });
  });
  EXPECT_VIOLATION(call, "argument bias of add needs 4", {
    run_compute([&](Encoder encoder) {
      bind(encoder, add_pipeline(), {data, data});
      const char small = 1;
      [encoder setBytes:&small length:1 atIndex:2];
      dispatch(encoder, 1, 4);
    });
  });
}

CASE(violation_buffer_offset_and_index) {
  const char* call = "-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]";
  id<MTLBuffer> data = float_buffer(4);
  EXPECT_VIOLATION(call, "offset 16 is beyond", {
    run_compute([&](Encoder encoder) { [encoder setBuffer:data offset:16 atIndex:0]; });
  });
  EXPECT_VIOLATION(
      call, "index 31", { run_compute([&](Encoder encoder) { [encoder setBuffer:data offset:0 atIndex:31]; }); });
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder setBufferOffset:atIndex:]", "no buffer is bound", {
    run_compute([&](Encoder encoder) { [encoder setBufferOffset:0 atIndex:3]; });
  });
}

CASE(violation_offset_of_a_constant_argument) {
  const char* call = "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]";
  const char* source = R"(
    kernel void number(constant half& from [[buffer(0)]], device half* to [[buffer(1)]]) { *to = from; }
    kernel void words(constant float* from [[buffer(0)]], device half* to [[buffer(1)]]) { *to = half(*from); }
    kernel void halves(constant half* from [[buffer(0)]], device half* to [[buffer(1)]]) { *to = *from; })";
  id<MTLBuffer> data = float_buffer(4);
  const auto run = [&](const char* name, NSUInteger offset) {
    run_compute([&](Encoder encoder) {
      bind(encoder, pipeline(source, name), {data, data});
      [encoder setBufferOffset:offset atIndex:0];
      [encoder setBufferOffset:10 atIndex:1];
      dispatch(encoder);
    });
  };
  for (unsigned family : {7u, 8u, 9u}) {
    const Setting setting(settings().gpu_family, family);
    EXPECT_VIOLATION(call, "the offset 2 at index 0 for argument from of number", { run("number", 2); });
    EXPECT_VIOLATION(call, "the offset 6 at index 0 for argument from of words", { run("words", 6); });
    run("number", 4);
    run("words", 4);
    run("halves", 2);
  }
}

CASE(violation_bytes) {
  const char* call = "-[MTLComputeCommandEncoder setBytes:length:atIndex:]";
  static const char bytes[4097] = {};
  EXPECT_VIOLATION(
      call, "exceeds 4096", { run_compute([&](Encoder encoder) { [encoder setBytes:bytes length:4097 atIndex:0]; }); });
  EXPECT_VIOLATION(
      call, "length is 0", { run_compute([&](Encoder encoder) { [encoder setBytes:bytes length:0 atIndex:0]; }); });
  run_compute([&](Encoder encoder) { [encoder setBytes:bytes length:4096 atIndex:30]; });
}

CASE(violation_threadgroup_memory) {
  const char* call = "-[MTLComputeCommandEncoder setThreadgroupMemoryLength:atIndex:]";
  EXPECT_VIOLATION(call, "not a multiple of 16", {
    run_compute([&](Encoder encoder) { [encoder setThreadgroupMemoryLength:20 atIndex:0]; });
  });
  EXPECT_VIOLATION(call, "exceeds the device's 32768", {
    run_compute([&](Encoder encoder) { [encoder setThreadgroupMemoryLength:32784 atIndex:0]; });
  });
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]", "uses 49152 bytes", {
    run_compute([&](Encoder encoder) {
      [encoder setComputePipelineState:add_pipeline()];
      id<MTLBuffer> data = float_buffer(4);
      for (NSUInteger i = 0; i < 3; ++i) {
        [encoder setBuffer:data offset:0 atIndex:i];
      }
      [encoder setThreadgroupMemoryLength:32768 atIndex:0];
      [encoder setThreadgroupMemoryLength:16384 atIndex:1];
      dispatch(encoder, 1, 4);
    });
  });
}

CASE(violation_use_of_released_buffer) {
  id<MTLBuffer> released = [metal_device() newBufferWithLength:16 options:MTLResourceStorageModeShared];
  [released release];
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]", "been released", {
    run_compute([&](Encoder encoder) { [encoder setBuffer:released offset:0 atIndex:0]; });
  });
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder useResource:usage:]", "been released", {
    run_compute([&](Encoder encoder) { [encoder useResource:released usage:MTLResourceUsageRead]; });
  });
}

CASE(encoder_refuses_what_is_not_simulated) {
  run_compute([](Encoder encoder) {
    EXPECT_ERROR("-[MTLComputeCommandEncoder setTexture:atIndex:] is not simulated",
                 { [encoder setTexture:(id<MTLTexture>)nil atIndex:0]; });
  });
}
