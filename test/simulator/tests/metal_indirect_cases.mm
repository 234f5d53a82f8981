// Indirect command buffers.

#import "metal_objects.h"

#include "support/settings.h"

#include <set>
#include <string>
#include <vector>

// nil is passed on purpose.
#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

// out[i] = in[i] + 1 for `count` elements.
id<MTLIndirectComputeCommand> encode_add(id<MTLIndirectCommandBuffer> commands,
                                         NSUInteger index,
                                         id<MTLBuffer> in,
                                         id<MTLBuffer> out,
                                         NSUInteger count = 4) {
  id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:index];
  [command setComputePipelineState:indirect_pipeline("add")];
  [command setKernelBuffer:in offset:0 atIndex:0];
  [command setKernelBuffer:out offset:0 atIndex:1];
  [command concurrentDispatchThreads:MTLSizeMake(count, 1, 1) threadsPerThreadgroup:MTLSizeMake(4, 1, 1)];
  return command;
}

void use(Encoder encoder, const std::vector<id<MTLBuffer>>& buffers) {
  for (id<MTLBuffer> buffer : buffers) {
    [encoder useResource:buffer usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  }
}

// Encodes all commands of `commands` behind what is there.
void execute(id<MTLCommandBuffer> buffer,
             id<MTLIndirectCommandBuffer> commands,
             const std::vector<id<MTLBuffer>>& used) {
  const Setting ninth(settings().gpu_family, 9u); // whose commands stand alone
  Encoder encoder = [buffer computeCommandEncoder];
  use(encoder, used);
  [encoder executeCommandsInBuffer:commands withRange:NSMakeRange(0, commands.size)];
  [encoder endEncoding];
}

void execute(id<MTLIndirectCommandBuffer> commands, NSRange range, const Encode& prepare) {
  const Setting ninth(settings().gpu_family, 9u);
  run_compute([&](Encoder encoder) {
    prepare(encoder);
    [encoder executeCommandsInBuffer:commands withRange:range];
  });
}

void execute(id<MTLIndirectCommandBuffer> commands, const std::vector<id<MTLBuffer>>& used) {
  execute(commands, NSMakeRange(0, commands.size), [&](Encoder encoder) { use(encoder, used); });
}

constexpr const char* kExecute = "-[MTLComputeCommandEncoder executeCommandsInBuffer:withRange:]";

// The order in which eight commands ran that note their index. They conflict,
// so this is possible without validation only.
std::string order_of_eight(uint64_t seed, bool barriers) {
  const Setting unchecked(settings().validation, false);
  const Setting seeded(settings().seed, seed);
  id<MTLBuffer> names = float_buffer(8), count = shared_buffer(4), order = shared_buffer(32);
  *static_cast<uint32_t*>([count contents]) = 0;
  id<MTLIndirectCommandBuffer> commands = make_commands(8);
  for (NSUInteger i = 0; i < 8; ++i) {
    id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:i];
    [command setComputePipelineState:indirect_pipeline("note")];
    [command setKernelBuffer:count offset:0 atIndex:0];
    [command setKernelBuffer:order offset:0 atIndex:1];
    [command setKernelBuffer:names offset:4 * i atIndex:2];
    [command concurrentDispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
    if (barriers) {
      [command setBarrier];
    }
  }
  execute(commands, {names, count, order});
  return digits(order);
}

} // namespace

CASE(indirect_commands_run) {
  id<MTLBuffer> a = float_buffer(6), b = float_buffer(6, 100), c = float_buffer(6, 200);
  id<MTLIndirectCommandBuffer> commands = make_commands(4);
  CHECK_EQUAL(commands.size, 4);
  encode_add(commands, 0, a, b, 5);
  // Command 1 stays empty, which a GPU skips.
  [encode_add(commands, 2, b, c, 5) setBarrier];
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  execute(buffer, commands, {a, b, c});
  CHECK_EQUAL(floats(b)[0], 100);
  finish(buffer);
  CHECK_EQUAL(floats(b)[4], 5);
  CHECK_EQUAL(floats(c)[4], 6);
  CHECK_EQUAL(floats(c)[5], 205);
  // Again, and only what is in the range.
  floats(a)[0] = 10;
  execute(commands, NSMakeRange(2, 2), [&](Encoder again) { use(again, {b, c}); });
  CHECK_EQUAL(floats(c)[0], 2);
}

CASE(indirect_commands_inherit) {
  MTLIndirectCommandBufferDescriptor* inheriting = indirect_descriptor();
  inheriting.inheritPipelineState = YES;
  inheriting.inheritBuffers = YES;
  id<MTLIndirectCommandBuffer> commands = make_commands(1, inheriting);
  id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:0];
  [command concurrentDispatchThreadgroups:MTLSizeMake(2, 1, 1) threadsPerThreadgroup:MTLSizeMake(2, 1, 1)];
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand setComputePipelineState:]", "inherits", {
    [command setComputePipelineState:indirect_pipeline("add")];
  });
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand setKernelBuffer:offset:atIndex:]", "inherits", {
    [command setKernelBuffer:float_buffer(4) offset:0 atIndex:0];
  });
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4, 100);
  const auto bind_both = [&](Encoder encoder) { bind(encoder, nil, {in, out}); };
  EXPECT_VIOLATION(kExecute, "no compute pipeline state is set", { execute(commands, NSMakeRange(0, 1), bind_both); });
  EXPECT_VIOLATION(kExecute, "without supportIndirectCommandBuffers", {
    execute(commands, NSMakeRange(0, 1), [&](Encoder e) {
      bind_both(e);
      [e setComputePipelineState:indirect_pipeline("add", false)];
    });
  });
  EXPECT_VIOLATION(kExecute, "no buffer is bound at index 0", {
    execute(commands, NSMakeRange(0, 1), [&](Encoder e) { [e setComputePipelineState:indirect_pipeline("add")]; });
  });
  // What the encoder binds needs no useResource:.
  execute(commands, NSMakeRange(0, 1), [&](Encoder e) {
    bind_both(e);
    [e setComputePipelineState:indirect_pipeline("add")];
  });
  CHECK_EQUAL(floats(out)[3], 4);
}

CASE(indirect_commands_use_threadgroup_memory) {
  id<MTLBuffer> data = float_buffer(4);
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:0];
  [command setComputePipelineState:indirect_pipeline("reverse")];
  [command setKernelBuffer:data offset:0 atIndex:0];
  [command concurrentDispatchThreads:MTLSizeMake(4, 1, 1) threadsPerThreadgroup:MTLSizeMake(4, 1, 1)];
  EXPECT_VIOLATION(kExecute, "no threadgroup memory length", { execute(commands, {data}); });
  [command setThreadgroupMemoryLength:16 atIndex:0];
  execute(commands, {data});
  CHECK_EQUAL(floats(data)[0], 3);
  const char* call = "-[MTLIndirectComputeCommand setThreadgroupMemoryLength:atIndex:]";
  EXPECT_VIOLATION(call, "not a multiple of 16", { [command setThreadgroupMemoryLength:20 atIndex:0]; });
  EXPECT_VIOLATION(call, "exceeds the device's", { [command setThreadgroupMemoryLength:65536 atIndex:0]; });
}

CASE(indirect_commands_run_in_the_order_of_the_seed) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    orders.insert(order_of_eight(seed, false));
    CHECK(order_of_eight(seed, true) == "01234567");
  }
  CHECK(orders.size() >= 5);
  // The same seed gives the same order again after another seed was set.
  const std::string third = order_of_eight(3, false);
  order_of_eight(4, false);
  CHECK(order_of_eight(3, false) == third);
  for (const auto& order : orders) {
    CHECK(std::set<char>(order.begin(), order.end()).size() == 8);
  }
}

// MARK: Violations

CASE(violation_indirect_conflict) {
  id<MTLBuffer> a = float_buffer(4), b = float_buffer(4), c = float_buffer(4);
  b.label = @"middle";
  // What one writes and the next one reads.
  id<MTLIndirectCommandBuffer> commands = make_commands(3);
  encode_add(commands, 0, a, b);
  id<MTLIndirectComputeCommand> reader = encode_add(commands, 2, b, c);
  for (const char* text :
       {"command 0 (add) and command 2 (add) conflict", "'middle' of 16 bytes", "no barrier between them"}) {
    EXPECT_VIOLATION(kExecute, text, { execute(commands, {a, b, c}); });
  }
  [reader setBarrier];
  execute(commands, {a, b, c});
  CHECK_EQUAL(floats(c)[0], 2);
  // A barrier of a command in between, even of an empty one, will do.
  id<MTLIndirectCommandBuffer> between = make_commands(3);
  encode_add(between, 0, a, b);
  [[between indirectComputeCommandAtIndex:1] setBarrier];
  encode_add(between, 2, b, c);
  execute(between, {a, b, c});

  // Two that write the same.
  id<MTLIndirectCommandBuffer> writers = make_commands(2);
  encode_add(writers, 0, a, c);
  encode_add(writers, 1, b, c);
  EXPECT_VIOLATION(kExecute, "which the other writes too", { execute(writers, {a, b, c}); });

  // Two that read the same.
  id<MTLIndirectCommandBuffer> readers = make_commands(2);
  encode_add(readers, 0, a, b);
  encode_add(readers, 1, a, c);
  execute(readers, {a, b, c});
}

CASE(violation_indirect_residency) {
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4);
  out.label = @"result";
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  encode_add(commands, 0, in, out);
  EXPECT_VIOLATION(kExecute, "command 0 (add) writes the buffer 'result'", { execute(commands, {in}); });
  EXPECT_VIOLATION(kExecute, "was not called for it", { execute(commands, {out}); });
  EXPECT_VIOLATION(kExecute, "only read", {
    execute(commands, NSMakeRange(0, 1), [&](Encoder e) {
      const id<MTLResource> both[] = {in, out};
      [e useResources:both count:2 usage:MTLResourceUsageRead];
    });
  });
  // Bound on the encoder is not enough when the command binds its own.
  EXPECT_VIOLATION(kExecute, "was not called for it", {
    execute(commands, NSMakeRange(0, 1), [&](Encoder e) { bind(e, nil, {in, out}); });
  });
  execute(commands, {in, out});
  CHECK_EQUAL(floats(out)[3], 4);
}

CASE(indirect_commands_read_from_a_used_heap) {
  id<MTLHeap> heap = make_heap(1 << 16);
  id<MTLBuffer> in = heap_buffer(heap, 16);
  floats(in)[3] = 3;
  id<MTLBuffer> out = float_buffer(4);
  id<MTLIndirectCommandBuffer> commands = make_commands(2);
  encode_add(commands, 0, in, out);
  encode_add(commands, 1, out, in);
  const auto execute_one = [&](NSUInteger index) {
    execute(commands, NSMakeRange(index, 1), [&](Encoder e) {
      [e useHeap:heap];
      [e useResource:out usage:MTLResourceUsageRead | MTLResourceUsageWrite];
    });
  };
  execute_one(0);
  CHECK_EQUAL(floats(out)[3], 4);
  EXPECT_VIOLATION(kExecute, "as -useHeap: does for all of a heap", { execute_one(1); });
}

CASE(violation_indirect_pipeline) {
  id<MTLIndirectComputeCommand> command = [make_commands(1) indirectComputeCommandAtIndex:0];
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand setComputePipelineState:]",
                   "add was made without supportIndirectCommandBuffers",
                   { [command setComputePipelineState:indirect_pipeline("add", false)]; });
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  [[commands indirectComputeCommandAtIndex:0] concurrentDispatchThreads:MTLSizeMake(1, 1, 1)
                                                  threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  EXPECT_VIOLATION(kExecute, "command 0 has no pipeline state", { execute(commands, {}); });
}

CASE(violation_indirect_pipeline_not_dispatched_first) {
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4);
  id<MTLComputePipelineState> add = indirect_pipeline("add");
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  [encode_add(commands, 0, in, out) setComputePipelineState:add];
  const auto run = [&](unsigned family, bool first) {
    const Setting setting(settings().gpu_family, family);
    run_compute([&](Encoder encoder) {
      use(encoder, {in, out});
      if (first) {
        bind(encoder, add, {in, out});
        [encoder dispatchThreadgroups:MTLSizeMake(0, 0, 0) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
      }
      [encoder executeCommandsInBuffer:commands withRange:NSMakeRange(0, 1)];
    });
  };
  for (unsigned family : {7u, 8u}) {
    EXPECT_VIOLATION(kExecute, "has not dispatched the pipeline of command 0 (add)", { run(family, false); });
    run(family, true);
  }
  run(9, false);
  CHECK_EQUAL(floats(out)[3], 4);
}

CASE(violation_indirect_limits) {
  const char* call = "-[MTLDevice newIndirectCommandBufferWithDescriptor:maxCommandCount:options:]";
  EXPECT_VIOLATION(call, "maxCommandCount is 0", { make_commands(0); });
  MTLIndirectCommandBufferDescriptor* wrong = indirect_descriptor();
  wrong.maxKernelBufferBindCount = 32;
  EXPECT_VIOLATION(call, "maxKernelBufferBindCount 32 exceeds 31", { make_commands(1, wrong); });
  wrong = indirect_descriptor();
  wrong.commandTypes = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeDraw;
  EXPECT_VIOLATION(call, "cannot be mixed", { make_commands(1, wrong); });

  MTLIndirectCommandBufferDescriptor* threads_only = indirect_descriptor();
  threads_only.commandTypes = MTLIndirectCommandTypeConcurrentDispatchThreads;
  id<MTLIndirectCommandBuffer> commands = make_commands(2, threads_only);
  id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:0];
  [command setComputePipelineState:indirect_pipeline("add")];
  id<MTLBuffer> data = float_buffer(4);
  const char* bind = "-[MTLIndirectComputeCommand setKernelBuffer:offset:atIndex:]";
  [command setKernelBuffer:data offset:12 atIndex:2];
  EXPECT_VIOLATION(
      bind, "not below maxKernelBufferBindCount 3", { [command setKernelBuffer:data offset:0 atIndex:3]; });
  EXPECT_VIOLATION(bind, "offset 16 is beyond", { [command setKernelBuffer:data offset:16 atIndex:0]; });
  EXPECT_VIOLATION(
      "-[MTLIndirectComputeCommand concurrentDispatchThreadgroups:threadsPerThreadgroup:]", "without this type", {
        [command concurrentDispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
      });
  EXPECT_VIOLATION(
      "-[MTLIndirectComputeCommand concurrentDispatchThreads:threadsPerThreadgroup:]", "exceeds the 1024 threads", {
        [command concurrentDispatchThreads:MTLSizeMake(4096, 1, 1) threadsPerThreadgroup:MTLSizeMake(2048, 1, 1)];
      });
  EXPECT_VIOLATION("-[MTLIndirectCommandBuffer indirectComputeCommandAtIndex:]", "range {2, 1} is not inside", {
    [commands indirectComputeCommandAtIndex:2];
  });
  EXPECT_VIOLATION(kExecute, "range {1, 2} is not inside", { execute(commands, NSMakeRange(1, 2), [](Encoder) {}); });
  id<MTLIndirectCommandBuffer> many = make_commands(16385);
  EXPECT_VIOLATION(kExecute, "more than 16384", { execute(many, NSMakeRange(0, 16385), [](Encoder) {}); });
  execute(many, NSMakeRange(1, 16384), [](Encoder) {});
  id<MTLIndirectCommandBuffer> full = make_commands(1);
  id<MTLIndirectComputeCommand> encoded = encode_add(full, 0, data, data);
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand concurrentDispatchThreads:threadsPerThreadgroup:]",
                   "must be reset first",
                   { encode_add(full, 0, data, data); });
  [encoded reset];
  encode_add(full, 0, data, data);
}

CASE(violation_indirect_commands_changed_in_flight) {
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4);
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  id<MTLIndirectComputeCommand> command = encode_add(commands, 0, in, out);
  id<MTLCommandQueue> queue = metal_queue();
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  execute(buffer, commands, {in, out});
  // Not committed: the commands are still the host's.
  [command setKernelBuffer:in offset:0 atIndex:0];
  [buffer commit];
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand setKernelBuffer:offset:atIndex:]", "has not completed", {
    [command setKernelBuffer:in offset:0 atIndex:0];
  });
  gate.open();
  [buffer waitUntilCompleted];
  [command setKernelBuffer:in offset:0 atIndex:0];
}

CASE(violation_indirect_released_objects) {
  id<MTLBuffer> in = float_buffer(4);
  id<MTLBuffer> out = [metal_device() newBufferWithLength:16 options:MTLResourceStorageModeShared];
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  encode_add(commands, 0, in, out);
  [out release];
  EXPECT_VIOLATION(
      kExecute, "bound at index 1 for argument out of add has been released", { execute(commands, {in}); });
  id<MTLIndirectComputeCommand> orphan = nil;
  id<MTLIndirectCommandBuffer> gone =
      [metal_device() newIndirectCommandBufferWithDescriptor:indirect_descriptor()
                                             maxCommandCount:1
                                                     options:MTLResourceStorageModeShared];
  orphan = [gone indirectComputeCommandAtIndex:0];
  [gone release];
  EXPECT_VIOLATION("-[MTLIndirectComputeCommand setBarrier]", "has been released", { [orphan setBarrier]; });
  EXPECT_VIOLATION(kExecute, "has been released", { execute(gone, NSMakeRange(0, 1), [](Encoder) {}); });
}
