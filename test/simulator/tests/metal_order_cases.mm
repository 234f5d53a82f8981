// What the GPU may run at the same time, or in another order.

#import "metal_objects.h"

#include "metal/access_map.h"
#include "metal/command.h"
#include "metal/memory.h"
#include "support/settings.h"

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

constexpr auto kUntracked = MTLResourceStorageModeShared | MTLResourceHazardTrackingModeUntracked;
constexpr auto kTracked = MTLResourceStorageModeShared | MTLResourceHazardTrackingModeTracked;
constexpr const char* kOrder = "order on the GPU";

constexpr const char* kThrough = R"(
  struct Pointers { device const float* in; device float* out; };
  kernel void through(constant Pointers& pointers [[buffer(0)]]) {
    pointers.out[0] = pointers.in[0] + 1;
  })";

id<MTLBuffer> buffer_of(MTLResourceOptions options, NSUInteger count = 4) {
  id<MTLBuffer> buffer = [[metal_device() newBufferWithLength:count * sizeof(float) options:options] autorelease];
  std::fill_n(floats(buffer), count, 1.0f);
  return buffer;
}

void add(Encoder encoder, id<MTLBuffer> in, id<MTLBuffer> out, NSUInteger offset = 0) {
  bind(encoder, pipeline(kKernels, "add"), {in});
  [encoder setBuffer:out offset:offset atIndex:1];
  dispatch(encoder);
}

void run_concurrent(const Encode& encode) {
  run_compute(encode, MTLDispatchTypeConcurrent);
}

#define EXPECT_CONFLICT(text, ...) EXPECT_VIOLATION(kOrder, text, __VA_ARGS__)

using Pass = std::function<void(id<MTLCommandBuffer>)>;

Pass computing(const Encode& encode) {
  return [=](id<MTLCommandBuffer> buffer) {
    Encoder encoder = [buffer computeCommandEncoder];
    encode(encoder);
    [encoder endEncoding];
  };
}

Pass adding(id<MTLBuffer> in, id<MTLBuffer> out, NSUInteger offset = 0) {
  return computing([=](Encoder encoder) { add(encoder, in, out, offset); });
}

Pass copying(id<MTLBuffer> from, id<MTLBuffer> to) {
  return [=](id<MTLCommandBuffer> buffer) { copy(buffer, from, to, 4); };
}

Pass signaling(id<MTLEvent> event, uint64_t value) {
  return [=](id<MTLCommandBuffer> buffer) { [buffer encodeSignalEvent:event value:value]; };
}

Pass awaiting(id<MTLEvent> event, uint64_t value) {
  return [=](id<MTLCommandBuffer> buffer) { [buffer encodeWaitForEvent:event value:value]; };
}

id<MTLCommandBuffer> commit(id<MTLCommandQueue> queue, const std::vector<Pass>& passes) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  for (const auto& pass : passes) {
    pass(buffer);
  }
  [buffer commit];
  return buffer;
}

// In one command buffer, and then each in one of its own.
void run_passes(const std::vector<Pass>& passes, bool separate) {
  id<MTLCommandQueue> queue = metal_queue();
  if (!separate) {
    [commit(queue, passes) waitUntilCompleted];
    return;
  }
  id<MTLCommandBuffer> last = nil;
  for (const auto& pass : passes) {
    last = commit(queue, {pass});
  }
  [last waitUntilCompleted];
}

void expect_fine(const std::vector<Pass>& passes) {
  run_passes(passes, false);
  run_passes(passes, true);
}

void expect_conflict(const char* text, const std::vector<Pass>& passes) {
  for (const bool separate : {false, true}) {
    EXPECT_CONFLICT(text, { run_passes(passes, separate); });
  }
}

// The order in which eight dispatches of a concurrent encoder ran.
std::string order_of_eight(uint64_t seed, bool barriers) {
  const Setting seeded(settings().seed, seed);
  const Setting unwatched(settings().order, false);
  id<MTLBuffer> count = shared_buffer(4), order = shared_buffer(32);
  *static_cast<uint32_t*>([count contents]) = 0;
  run_concurrent([&](Encoder encoder) {
    bind(encoder, pipeline(kKernels, "note"), {count, order});
    for (int i = 0; i < 8; ++i) {
      const auto name = static_cast<float>(i);
      [encoder setBytes:&name length:4 atIndex:2];
      dispatch(encoder);
      if (barriers) {
        [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
      }
    }
  });
  return digits(order);
}

} // namespace

// MARK: Concurrent encoders

CASE(concurrent_dispatches_run_in_the_order_of_the_seed) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    orders.insert(order_of_eight(seed, false));
    CHECK(order_of_eight(seed, true) == "01234567");
  }
  CHECK(orders.size() > 3);
}

CASE(violation_concurrent_dispatches_conflict) {
  id<MTLBuffer> a = float_buffer(4), b = float_buffer(4), c = float_buffer(4);
  b.label = @"between";
  // The seed decides which of the two is "earlier"; the message names both.
  const auto conflict = [&](const char* text, const Encode& encode) {
    EXPECT_CONFLICT(text, { run_concurrent(encode); });
  };
  conflict("of the buffer 'between' of 16 bytes", [&](Encoder encoder) {
    add(encoder, a, b);
    add(encoder, b, c);
  });
  for (const char* name : {"dispatch 1 (kernel 'add')", "dispatch 2 (kernel 'add')"}) {
    conflict(name, [&](Encoder encoder) {
      add(encoder, b, c);
      add(encoder, a, b);
    });
  }
  conflict("there is no barrier between them", [&](Encoder encoder) {
    add(encoder, a, c);
    add(encoder, b, c);
  });
  // Reading together is fine, and so is an encoder that is not concurrent.
  run_concurrent([&](Encoder encoder) {
    add(encoder, a, b);
    add(encoder, a, c);
  });
  [commit(metal_queue(), {adding(a, b), adding(b, c)}) waitUntilCompleted];
}

CASE(violation_barrier_that_does_not_cover_the_buffer) {
  id<MTLBuffer> a = float_buffer(4), b = float_buffer(4), c = float_buffer(4);
  const auto run_with = [&](const Encode& barrier) {
    run_concurrent([&](Encoder encoder) {
      add(encoder, a, b);
      barrier(encoder);
      add(encoder, b, c);
    });
  };
  run_with([](Encoder encoder) { [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers]; });
  CHECK_EQUAL(floats(c)[0], 2);
  run_with([&](Encoder encoder) {
    const id<MTLResource> both[] = {c, b};
    [encoder memoryBarrierWithResources:both count:2];
  });
  EXPECT_CONFLICT("no barrier",
                  { run_with([](Encoder encoder) { [encoder memoryBarrierWithScope:MTLBarrierScopeTextures]; }); });
  EXPECT_CONFLICT("no barrier", {
    run_with([&](Encoder encoder) {
      const id<MTLResource> other[] = {a};
      [encoder memoryBarrierWithResources:other count:1];
    });
  });
  EXPECT_CONFLICT("no barrier", { run_with([](Encoder) {}); });
}

CASE(concurrent_dispatches_may_write_what_no_other_touches) {
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(8);
  // A kernel may write from its offset to the end of the buffer; the seed decides
  // which of the two runs second and is named.
  EXPECT_CONFLICT("to 32 of the buffer", {
    run_concurrent([&](Encoder encoder) {
      add(encoder, in, out, 16);
      add(encoder, in, out, 0);
    });
  });
  // Two buffers, one memory.
  auto* memory = std::aligned_alloc(page_size(), page_size());
  const auto on_memory = [&] {
    return [[metal_device() newBufferWithBytesNoCopy:memory length:page_size() options:kTracked deallocator:nil] autorelease];
  };
  @autoreleasepool {
    id<MTLBuffer> first = on_memory();
    id<MTLBuffer> alias = on_memory();
    EXPECT_CONFLICT("with memory of", {
      run_concurrent([&](Encoder encoder) {
        add(encoder, in, first);
        add(encoder, in, alias);
      });
    });
    // A barrier for one of them does not cover the other.
    EXPECT_CONFLICT("with memory of", {
      run_concurrent([&](Encoder encoder) {
        add(encoder, in, first);
        const id<MTLResource> one[] = {alias};
        [encoder memoryBarrierWithResources:one count:1];
        add(encoder, in, alias);
      });
    });
  }
  std::free(memory);
}

CASE(violation_concurrent_dispatches_conflict_through_pointers) {
  id<MTLBuffer> in = float_buffer(4, 1), between = float_buffer(4), out = float_buffer(4);
  const auto run_with = [&](bool barrier) {
    run_concurrent([&](Encoder encoder) {
      [encoder setComputePipelineState:pipeline(kThrough, "through")];
      const id<MTLResource> all[] = {in, between, out};
      [encoder useResources:all count:3 usage:MTLResourceUsageRead | MTLResourceUsageWrite];
      const auto add_through = [&](id<MTLBuffer> from, id<MTLBuffer> to) {
        const uint64_t pointers[] = {from.gpuAddress, to.gpuAddress};
        [encoder setBytes:pointers length:sizeof(pointers) atIndex:0];
        dispatch(encoder);
      };
      add_through(in, between);
      if (barrier) {
        [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
      }
      add_through(between, out);
    });
  };
  run_with(true);
  CHECK_EQUAL(floats(out)[0], 3);
  EXPECT_CONFLICT("(kernel 'through')", { run_with(false); });
}

CASE(violation_indirect_commands_conflict_with_a_dispatch) {
  const Setting ninth(settings().gpu_family, 9u);
  id<MTLBuffer> a = float_buffer(4), b = float_buffer(4), c = float_buffer(4);
  id<MTLIndirectCommandBuffer> commands = make_commands(1);
  id<MTLIndirectComputeCommand> command = [commands indirectComputeCommandAtIndex:0];
  [command setComputePipelineState:indirect_pipeline("add")];
  [command setKernelBuffer:b offset:0 atIndex:0];
  [command setKernelBuffer:c offset:0 atIndex:1];
  [command concurrentDispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  const auto run_with = [&](bool barrier) {
    run_concurrent([&](Encoder encoder) {
      const id<MTLResource> all[] = {b, c};
      [encoder useResources:all count:2 usage:MTLResourceUsageWrite];
      add(encoder, a, b);
      if (barrier) {
        [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
      }
      [encoder executeCommandsInBuffer:commands withRange:NSMakeRange(0, 1)];
    });
  };
  run_with(true);
  EXPECT_CONFLICT("of an indirect command buffer", { run_with(false); });
}

// MARK: Memory that Metal does not track

CASE(violation_untracked_memory_between_passes) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked), c = buffer_of(kUntracked);
  b.label = @"between";
  // Read after write, write after read, write after write.
  expect_conflict(
      "dispatch 1 (kernel 'add') reads bytes 0 to 16 of the buffer 'between' of "
      "16 bytes",
      {adding(a, b), adding(b, c)});
  expect_conflict("which dispatch 1 (kernel 'add') reads", {adding(b, c), adding(a, b)});
  expect_conflict("Metal does not track the buffer", {adding(a, c), adding(b, c)});
  expect_fine({adding(a, b), adding(a, c)});
  // In one encoder, commands run one after the other.
  [commit(metal_queue(), {[&](id<MTLCommandBuffer> buffer) {
            Encoder encoder = [buffer computeCommandEncoder];
            add(encoder, a, b);
            add(encoder, b, c);
            [encoder endEncoding];
          }}) waitUntilCompleted];
  // And tracked memory needs nothing.
  id<MTLBuffer> d = buffer_of(kTracked), e = buffer_of(MTLResourceStorageModeShared);
  expect_fine({adding(a, d), adding(d, e), adding(b, d)});
}

CASE(violation_untracked_memory_of_blits_and_kernel_objects) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked);
  expect_conflict("a blit's copy", {copying(a, b), adding(b, a)});
  expect_conflict("a blit's copy reads", {adding(a, b), copying(b, a)});
  const Pass fill = [=](id<MTLCommandBuffer> buffer) {
    blit(buffer, [&](id<MTLBlitCommandEncoder> encoder) { [encoder fillBuffer:b range:NSMakeRange(4, 4) value:0]; });
  };
  // Four bytes are copied, the next four filled.
  expect_fine({copying(a, b), fill});
  expect_conflict("a blit's fill writes bytes 4 to 8", {adding(a, b), fill});
  const Pass graph = [=](id<MTLCommandBuffer> buffer) {
    append_command(buffer, {"a graph", [] {}, {{b, 8, 12, true}}});
  };
  expect_fine({copying(a, b), graph});
  expect_conflict("a graph writes bytes 8 to 12", {adding(a, b), graph});
  const Pass solve = [=](id<MTLCommandBuffer> buffer) {
    MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:1
                                                                            columns:1
                                                                           rowBytes:4
                                                                           dataType:MPSDataTypeFloat32];
    const auto matrix = [&](id<MTLBuffer> data, NSUInteger offset) {
      return [[[MPSMatrix alloc] initWithBuffer:data offset:offset descriptor:descriptor] autorelease];
    };
    MPSMatrixSolveTriangular* solver = [[[MPSMatrixSolveTriangular alloc] initWithDevice:metal_device()
                                                                                   right:NO
                                                                                   upper:YES
                                                                               transpose:NO
                                                                                    unit:YES
                                                                                   order:1
                                                                  numberOfRightHandSides:1
                                                                                   alpha:1] autorelease];
    [solver encodeToCommandBuffer:buffer
                     sourceMatrix:matrix(a, 0)
              rightHandSideMatrix:matrix(a, 4)
                   solutionMatrix:matrix(b, 12)];
  };
  expect_fine({graph, solve});
  expect_conflict("writes bytes 12 to 16", {adding(a, b), solve});
}

CASE(violation_untracked_memory_through_pointers) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked);
  const Pass through = computing([=](Encoder encoder) {
    [encoder setComputePipelineState:pipeline(kThrough, "through")];
    [encoder useResource:a usage:MTLResourceUsageRead];
    [encoder useResource:b usage:MTLResourceUsageWrite];
    const uint64_t pointers[] = {a.gpuAddress, b.gpuAddress};
    [encoder setBytes:pointers length:sizeof(pointers) atIndex:0];
    dispatch(encoder);
  });
  id<MTLBuffer> other = buffer_of(kUntracked);
  expect_fine({adding(a, other), through});
  expect_conflict("(kernel 'through') writes", {adding(b, other), through});
}

CASE(event_orders_what_follows_the_wait) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked), c = buffer_of(kUntracked);
  id<MTLSharedEvent> event = [[metal_device() newSharedEvent] autorelease];
  [commit(metal_queue(), {adding(a, b), signaling(event, 1), awaiting(event, 1), adding(b, c)}) waitUntilCompleted];
  // From one queue to another.
  id<MTLSharedEvent> shared = [[metal_device() newSharedEvent] autorelease];
  id<MTLCommandBuffer> reader = commit(metal_queue(), {awaiting(shared, 1), adding(b, c)});
  id<MTLCommandBuffer> writer = commit(metal_queue(), {adding(a, b), signaling(shared, 1)});
  [reader waitUntilCompleted];
  [writer waitUntilCompleted];
  // A signal before the work does not order the work.
  id<MTLSharedEvent> early = [[metal_device() newSharedEvent] autorelease];
  EXPECT_CONFLICT("nothing orders the two", {
    [commit(metal_queue(), {signaling(early, 1), adding(a, b), awaiting(early, 1), adding(b, c)}) waitUntilCompleted];
  });
  id<MTLSharedEvent> counting = [[metal_device() newSharedEvent] autorelease];
  [commit(metal_queue(),
          {signaling(counting, 1), adding(a, b), signaling(counting, 2), awaiting(counting, 2), adding(b, c)})
      waitUntilCompleted];
  // Nor does the first of two signals order the work after it.
  id<MTLSharedEvent> twice = [[metal_device() newSharedEvent] autorelease];
  EXPECT_CONFLICT("nothing orders the two", {
    [commit(metal_queue(), {signaling(twice, 1), adding(a, b), signaling(twice, 2), awaiting(twice, 1), adding(b, c)})
        waitUntilCompleted];
  });
}

CASE(tracked_memory_orders_passes) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked), tracked = buffer_of(kTracked);
  id<MTLBuffer> other = buffer_of(kTracked);
  // The third pass waits for the second one's tracked result, and that one for the
  // first one's.
  const Pass first = computing([=](Encoder encoder) {
    add(encoder, a, b);
    add(encoder, a, tracked);
  });
  const auto last = [=](id<MTLBuffer> waits_for) {
    return computing([=](Encoder encoder) {
      // A whole encoder waits, whichever command needs it.
      add(encoder, b, a);
      add(encoder, waits_for, buffer_of(kTracked));
    });
  };
  id<MTLBuffer> unrelated = buffer_of(kTracked);
  expect_fine({first, adding(tracked, other), last(other)});
  expect_conflict("nothing orders the two", {first, adding(tracked, other), last(unrelated)});
  // A pass that writes tracked memory waits for those that read it.
  const Pass reading = computing([=](Encoder encoder) { add(encoder, tracked, b); });
  const Pass writing = computing([=](Encoder encoder) { add(encoder, b, tracked); });
  expect_fine({reading, writing});
  // What is declared of tracked memory counts.
  const Pass declaring = computing([=](Encoder encoder) {
    [encoder useResource:tracked usage:MTLResourceUsageRead];
    add(encoder, b, a);
  });
  expect_fine({first, declaring});
}

CASE(completion_orders_what_is_committed_after_it) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked), c = buffer_of(kUntracked);
  id<MTLCommandQueue> queue = metal_queue();
  [commit(queue, {adding(a, b)}) waitUntilCompleted];
  [commit(metal_queue(), {adding(b, c)}) waitUntilCompleted];
  // Of an earlier one of the queue, too.
  commit(queue, {adding(a, b)});
  [commit(queue, {copying(a, c)}) waitUntilCompleted];
  [commit(queue, {adding(b, a)}) waitUntilCompleted];
  // The host's knowledge counts; work that merely happens to be done does not.
  id<MTLSharedEvent> event = [[metal_device() newSharedEvent] autorelease];
  commit(queue, {adding(b, c), signaling(event, 1)});
  CHECK([event waitUntilSignaledValue:1 timeoutMS:5000]);
  [commit(queue, {adding(c, b)}) waitUntilCompleted];
  Gate gate(queue);
  commit(queue, {adding(b, c)});
  id<MTLCommandBuffer> last = commit(queue, {adding(c, b)});
  gate.open();
  EXPECT_CONFLICT("nothing orders the two", { [last waitUntilCompleted]; });
}

CASE(heaps_are_untracked_unless_they_say_otherwise) {
  for (const auto mode : {MTLHazardTrackingModeDefault, MTLHazardTrackingModeUntracked}) {
    id<MTLHeap> heap = make_heap(1 << 16, mode);
    CHECK(heap.hazardTrackingMode == MTLHazardTrackingModeUntracked);
    id<MTLBuffer> a = float_buffer(4);
    id<MTLBuffer> b = [[heap newBufferWithLength:16 options:kTracked] autorelease];
    CHECK(b.hazardTrackingMode == MTLHazardTrackingModeUntracked);
    id<MTLBuffer> c = float_buffer(4);
    expect_conflict("nothing orders the two", {adding(a, b), adding(b, c)});
  }
  id<MTLHeap> heap = make_heap(1 << 16, MTLHazardTrackingModeTracked);
  id<MTLBuffer> a = float_buffer(4);
  id<MTLBuffer> b = heap_buffer(heap, 16);
  CHECK(b.hazardTrackingMode == MTLHazardTrackingModeTracked);
  CHECK(a.hazardTrackingMode == MTLHazardTrackingModeTracked);
  expect_fine({adding(a, b), adding(b, a)});
}

CASE(order_of_very_many_passes_takes_little_memory) {
  id<MTLBuffer> a = buffer_of(kUntracked), b = buffer_of(kUntracked);
  const Pass reading = [=](id<MTLCommandBuffer> buffer) {
    append_command(buffer, {"a graph", [] {}, {{a, 0, 16, false}}});
  };
  std::vector<Pass> passes(5000, reading);
  passes.push_back(adding(b, a));
  EXPECT_CONFLICT("which a graph reads", { [commit(metal_queue(), passes) waitUntilCompleted]; });
}

// MARK: The parts

CASE(access_map_finds_every_conflict) {
  // Against one entry a byte.
  struct Byte {
    uint64_t writer = 0;
    std::set<uint64_t> readers;
  };
  std::mt19937 random(11);
  constexpr size_t kBytes = 64;
  static char memory[kBytes];
  for (int round = 0; round < 200; ++round) {
    AccessMap map;
    std::vector<Byte> bytes(kBytes);
    for (uint64_t id = 1; id <= 40; ++id) {
      if (random() % 20 == 0) {
        map.forget(memory + 10, memory + 30);
        std::fill(bytes.begin() + 10, bytes.begin() + 30, Byte{});
      }
      const size_t begin = random() % kBytes;
      const size_t end = std::min(kBytes, begin + random() % 20);
      const bool writes = random() % 3 == 0;
      std::set<uint64_t> expected;
      std::set<uint64_t> found;
      for (size_t i = begin; i < end; ++i) {
        if (bytes[i].writer) {
          expected.insert(bytes[i].writer);
        }
        if (writes) {
          expected.insert(bytes[i].readers.begin(), bytes[i].readers.end());
          bytes[i] = {id, {}};
        } else {
          bytes[i].readers.insert(id);
        }
      }
      map.add(
          {nullptr, memory + begin, memory + end, writes},
          {id, nullptr, nullptr},
          [](const Accessor&) { return false; },
          [&](const Accessor& earlier, bool) { found.insert(earlier.id); });
      CHECK(found == expected);
    }
  }
}
