// Libraries, pipelines, compute and argument encoders.

#import "metal_objects.h"

#include "support/counters.h"
#include "support/settings.h"

#include <chrono>
#include <functional>

// nil is passed on purpose.
#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

CASE(kernel_runs_over_its_grid) {
  id<MTLBuffer> in = float_buffer(10), out = float_buffer(12, 100);
  run_compute([&](Encoder encoder) {
    CHECK(encoder.dispatchType == MTLDispatchTypeSerial);
    bind(encoder, add_pipeline(), {in, out});
    float bias = 0.5;
    [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
    bias = 99; // the bytes were copied
    dispatch(encoder, 10, 4);
  });
  for (int i = 0; i < 10; ++i) {
    CHECK_EQUAL(floats(out)[i], static_cast<float>(i) + 0.5f);
  }
  CHECK_EQUAL(floats(out)[10], 110);
}

CASE(encoder_state_is_sticky_and_snapshotted) {
  id<MTLBuffer> in = float_buffer(8), out = float_buffer(12, 100);
  run_compute([&](Encoder encoder) {
    [encoder setComputePipelineState:add_pipeline()];
    id<MTLBuffer> both[] = {in, out};
    const NSUInteger offsets[] = {0, 0};
    [encoder setBuffers:both offsets:offsets withRange:NSMakeRange(0, 2)];
    float bias = 1;
    [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
    dispatch(encoder, 4, 4);
    [encoder setBufferOffset:16 atIndex:1];
    bias = 2;
    [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
    dispatch(encoder, 4, 4);
    [encoder setBuffer:out offset:32 atIndex:1];
    [encoder dispatchThreadgroups:MTLSizeMake(2, 1, 1) threadsPerThreadgroup:MTLSizeMake(2, 1, 1)];
  });
  CHECK_EQUAL(floats(out)[3], 4);
  CHECK_EQUAL(floats(out)[4], 2);
  CHECK_EQUAL(floats(out)[7], 5);
  CHECK_EQUAL(floats(out)[8], 2);
  CHECK_EQUAL(floats(out)[11], 5);
}

CASE(indirect_dispatch_reads_its_size_on_the_gpu) {
  id<MTLBuffer> in = float_buffer(8), out = float_buffer(8, 100), arguments = shared_buffer(16);
  auto* groups = static_cast<uint32_t*>([arguments contents]);
  groups[1] = groups[2] = groups[3] = 0;
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  Encoder encoder = [buffer computeCommandEncoder];
  bind(encoder, add_pipeline(), {in, out});
  const float bias = 1;
  [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
  [encoder dispatchThreadgroupsWithIndirectBuffer:arguments
                             indirectBufferOffset:4
                            threadsPerThreadgroup:MTLSizeMake(2, 1, 1)];
  [encoder endEncoding];
  groups[1] = 3;
  groups[2] = groups[3] = 1;
  finish(buffer);
  CHECK_EQUAL(floats(out)[5], 6);
  CHECK_EQUAL(floats(out)[6], 106);
}

CASE(threadgroup_memory_is_shared_in_a_group) {
  id<MTLBuffer> data = float_buffer(8);
  run_compute([&](Encoder encoder) {
    bind(encoder, pipeline(kKernels, "reverse"), {data});
    [encoder setThreadgroupMemoryLength:16 atIndex:0];
    dispatch(encoder, 8, 4);
  });
  CHECK((std::vector<float>(floats(data), floats(data) + 8) == std::vector<float>{3, 2, 1, 0, 7, 6, 5, 4}));
}

CASE(argument_encoder_writes_addresses) {
  id<MTLFunction> function = kernel(
      R"(
        #include <metal_stdlib>
        using namespace metal;
        struct Arguments {
          device float* in [[id(0)]];
          device float* out [[id(1)]];
        };
        kernel void indirect(constant Arguments& arguments [[buffer(3)]],
                             uint i [[thread_position_in_grid]]) {
          arguments.out[i] = 2 * arguments.in[i];
        })",
      "indirect");
  id<MTLArgumentEncoder> arguments = [[function newArgumentEncoderWithBufferIndex:3] autorelease];
  CHECK_EQUAL(arguments.encodedLength, 16);
  id<MTLBuffer> storage = shared_buffer(64), in = float_buffer(8), out = float_buffer(4, 100);
  [arguments setArgumentBuffer:storage offset:32];
  [arguments setBuffer:in offset:16 atIndex:0];
  [arguments setBuffer:out offset:0 atIndex:1];
  NSError* error = nil;
  id<MTLComputePipelineState> state = [[metal_device() newComputePipelineStateWithFunction:function
                                                                                     error:&error] autorelease];
  run_compute([&](Encoder encoder) {
    [encoder setComputePipelineState:state];
    [encoder setBuffer:storage offset:32 atIndex:3];
    [encoder useResource:in usage:MTLResourceUsageRead];
    const id<MTLResource> written[] = {out};
    [encoder useResources:written count:1 usage:MTLResourceUsageWrite];
    dispatch(encoder, 4, 4);
  });
  CHECK_EQUAL(floats(out)[0], 8);
  CHECK_EQUAL(floats(out)[3], 14);
  EXPECT_VIOLATION("-[MTLArgumentEncoder setBuffer:offset:atIndex:]", "no member with id 7", {
    [arguments setBuffer:in offset:0 atIndex:7];
  });
  EXPECT_VIOLATION("-[MTLArgumentEncoder setArgumentBuffer:offset:]", "encodedLength", {
    [arguments setArgumentBuffer:storage offset:56];
  });
  EXPECT_VIOLATION("-[MTLFunction newArgumentEncoderWithBufferIndex:]", "no argument buffer at index 0", {
    [function newArgumentEncoderWithBufferIndex:0];
  });
}

CASE(library_names_its_functions_and_errors) {
  id<MTLFunction> function = kernel("kernel void one(device int* a) {} kernel void two(device int* a) {}", "two");
  CHECK([function.name isEqualToString:@"two"]);
  CHECK(function.functionType == MTLFunctionTypeKernel);
  NSError* error = nil;
  id<MTLLibrary> library = [metal_device() newLibraryWithSource:@"kernel void broken( {" options:nil error:&error];
  CHECK(library == nil);
  CHECK_EQUAL(error.code, MTLLibraryErrorCompileFailure);
  CHECK([error.domain isEqualToString:MTLLibraryErrorDomain]);
  CHECK(error.localizedDescription.length > 0);
}

CASE(library_takes_macros_and_data) {
  MTLCompileOptions* options = [[[MTLCompileOptions alloc] init] autorelease];
  CHECK(options.fastMathEnabled);
  options.mathMode = MTLMathModeSafe;
  CHECK(!options.fastMathEnabled);
  options.preprocessorMacros = @{@"NAME" : @"renamed"};
  NSError* error = nil;
  NSString* source = @"kernel void NAME(device int* a) {}";
  id<MTLLibrary> library = [[metal_device() newLibraryWithSource:source options:options error:&error] autorelease];
  CHECK(library != nil);
  CHECK_EQUAL(library.functionNames.count, 1);
  CHECK([library.functionNames[0] isEqualToString:@"renamed"]);
  CHECK([library newFunctionWithName:@"other"] == nil);
  dispatch_data_t data =
      dispatch_data_create(source.UTF8String, source.length, nullptr, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
  id<MTLLibrary> from_data = [[metal_device() newLibraryWithData:data error:&error] autorelease];
  CHECK([from_data.functionNames[0] isEqualToString:@"NAME"]);
  dispatch_release(data);
}

CASE(pipeline_describes_itself) {
  MTLComputePipelineDescriptor* descriptor = [[[MTLComputePipelineDescriptor alloc] init] autorelease];
  descriptor.computeFunction = kernel("kernel void empty(device int* data [[buffer(5)]]) {}", "empty");
  descriptor.maxTotalThreadsPerThreadgroup = 64;
  descriptor.supportIndirectCommandBuffers = YES;
  descriptor.label = @"described";
  NSError* error = nil;
  MTLComputePipelineReflection* reflection = nil;
  id<MTLComputePipelineState> state =
      [[metal_device() newComputePipelineStateWithDescriptor:descriptor
                                                     options:MTLPipelineOptionBindingInfo
                                                  reflection:&reflection
                                                       error:&error] autorelease];
  CHECK_EQUAL(state.maxTotalThreadsPerThreadgroup, 64);
  CHECK_EQUAL(state.threadExecutionWidth, 32);
  CHECK_EQUAL(state.staticThreadgroupMemoryLength, 0);
  CHECK(state.supportIndirectCommandBuffers);
  CHECK([state.label isEqualToString:@"described"]);
  CHECK_EQUAL(reflection.bindings.count, 1);
  CHECK_EQUAL(reflection.bindings[0].index, 5);
  CHECK([reflection.bindings[0].name isEqualToString:@"data"]);
}

CASE(calls_are_counted) {
  id<MTLComputePipelineState> state = add_pipeline();
  reset_counters();
  run_compute([&](Encoder encoder) {
    [encoder setComputePipelineState:state];
    [encoder setComputePipelineState:state];
  });
  const std::string json = counters_json();
  CHECK(json.find("\"-[MTLComputeCommandEncoder setComputePipelineState:]\": 2") != std::string::npos);
  CHECK(json.find("\"-[MTLCommandBuffer commit]\": 1") != std::string::npos);
  reset_counters();
  CHECK(counters_json() == "{}");
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

CASE(violation_use_of_ended_compute_encoder) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  Encoder encoder = [buffer computeCommandEncoder];
  [encoder endEncoding];
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]", "has ended", {
    [encoder setBuffer:shared_buffer(4) offset:0 atIndex:0];
  });
}

CASE(encoder_refuses_what_is_not_simulated) {
  run_compute([](Encoder encoder) {
    EXPECT_ERROR("-[MTLComputeCommandEncoder setTexture:atIndex:] is not simulated",
                 { [encoder setTexture:(id<MTLTexture>)nil atIndex:0]; });
    EXPECT_ERROR(
        "-[MTLComputeCommandEncoder sampleCountersInBuffer:atSampleIndex:"
        "withBarrier:] is not simulated",
        { [encoder sampleCountersInBuffer:(id<MTLCounterSampleBuffer>)nil atSampleIndex:0 withBarrier:NO]; });
  });
}

CASE(encoding_is_cheap_in_null_mode) {
  id<MTLComputePipelineState> state = add_pipeline();
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4);
  const Setting encoding_only(settings().null_mode, true);
  const Setting unchecked(settings().validation, false);
  constexpr int kRounds = 20;
  constexpr int kDispatches = 5000;
  double best = 1e9;
  id<MTLCommandQueue> queue = metal_queue();
  for (int round = 0; round < kRounds; ++round) {
    @autoreleasepool {
      const auto start = std::chrono::steady_clock::now();
      id<MTLCommandBuffer> buffer = [queue commandBuffer];
      Encoder encoder = [buffer computeCommandEncoder];
      for (int i = 0; i < kDispatches; ++i) {
        [encoder setComputePipelineState:state];
        [encoder setBuffer:in offset:0 atIndex:0];
        [encoder setBuffer:out offset:0 atIndex:1];
        const float bias = 1;
        [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
        [encoder dispatchThreads:MTLSizeMake(4, 1, 1) threadsPerThreadgroup:MTLSizeMake(4, 1, 1)];
      }
      [encoder endEncoding];
      [buffer commit];
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count() / kDispatches);
    }
  }
  // Five calls, measured at 90 ns on the machine where this was written.
  if (best > 2e-6) {
    fail(__FILE__, __LINE__, "a dispatch takes " + std::to_string(best * 1e9) + " ns");
  }
}
