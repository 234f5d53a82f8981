// What the host does to memory that the GPU uses.

#import "metal_objects.h"

#include "metal/memory.h"
#include "support/settings.h"

#include <cstdlib>
#include <cstring>

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

// The compiler may not move or drop what the host does.
float read(id<MTLBuffer> buffer, NSUInteger index = 0) {
  return static_cast<volatile float*>(floats(buffer))[index];
}

void write(id<MTLBuffer> buffer, NSUInteger index, float value) {
  static_cast<volatile float*>(floats(buffer))[index] = value;
}

id<MTLCommandBuffer> commit_copy(id<MTLCommandQueue> queue,
                                 id<MTLBuffer> from,
                                 id<MTLBuffer> to,
                                 NSUInteger offset,
                                 NSUInteger size) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  buffer.label = @"copying";
  copy(buffer, from, to, size, offset);
  [buffer commit];
  return buffer;
}

// Memory of the program's own, as a buffer.
struct ProgramMemory {
  ProgramMemory() : bytes(std::aligned_alloc(page_size(), page_size())) {
    std::memset(bytes, 0, page_size());
    buffer = [[metal_device() newBufferWithBytesNoCopy:bytes
                                                length:page_size()
                                               options:MTLResourceStorageModeShared
                                           deallocator:nil] autorelease];
  }
  ~ProgramMemory() {
    std::free(bytes);
  }
  void* bytes;
  id<MTLBuffer> buffer;
};

// A copy that is committed and does not run before the gate is opened.
struct HeldCopy {
  explicit HeldCopy(bool watched = true) : watch(settings().hazards, watched) {
    from.label = @"source";
    to.label = @"target";
    buffer = commit_copy(queue, from, to, 0, 16);
  }

  Setting<bool> watch;
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> from = float_buffer(4, 1);
  id<MTLBuffer> to = float_buffer(4, 10);
  Gate gate{queue};
  id<MTLCommandBuffer> buffer;
};

} // namespace

CASE(hazard_host_writes_what_the_gpu_reads) {
  HeldCopy held;
  // Reading what the GPU only reads is fine.
  CHECK_EQUAL(read(held.from), 1);
  [held.queue commandBuffer];
  write(held.from, 1, 99);
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "wrote byte 4 of the buffer 'source' of 16 bytes", {
    [held.queue commandBuffer];
  });
  // Reported once. The host's access has happened, as on a Mac.
  [held.queue commandBuffer];
  held.gate.open();
  [held.buffer waitUntilCompleted];
  CHECK_EQUAL(read(held.to, 1), 99);
  // The GPU is done with both.
  write(held.from, 1, 5);
  write(held.to, 1, 5);
  [held.queue commandBuffer];
}

CASE(hazard_host_reads_what_the_gpu_will_write) {
  HeldCopy held;
  CHECK_EQUAL(read(held.to), 10);
  held.gate.open();
  EXPECT_VIOLATION("-[MTLCommandBuffer waitUntilCompleted]", "read byte 0 of the buffer 'target'", {
    [held.buffer waitUntilCompleted];
  });
  [held.buffer waitUntilCompleted];
  CHECK_EQUAL(read(held.to), 1);
  [held.queue commandBuffer];
}

CASE(hazard_names_the_command_buffer) {
  HeldCopy held;
  write(held.to, 0, 1);
  held.gate.open();
  EXPECT_VIOLATION("-[MTLCommandBuffer waitUntilCompleted]", "while command buffer copying (", {
    [held.buffer waitUntilCompleted];
  });
  [held.buffer waitUntilCompleted];
}

CASE(no_hazard_beside_what_the_gpu_uses) {
  const Setting watch(settings().hazards, true);
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> from = float_buffer(8, 1), to = float_buffer(8, 10);
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = commit_copy(queue, from, to, 16, 16);
  write(from, 0, 50);
  write(to, 3, 50);
  CHECK_EQUAL(read(to, 3), 50);
  [queue commandBuffer];
  gate.open();
  [buffer waitUntilCompleted];
  CHECK_EQUAL(read(to, 4), 5);
}

CASE(hazard_of_a_kernel_and_its_bindings) {
  const Setting watch(settings().hazards, true);
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> in = float_buffer(4, 1), out = float_buffer(4, 10), bias = float_buffer(1, 1);
  id<MTLComputePipelineState> state = add_pipeline();
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  Encoder encoder = [buffer computeCommandEncoder];
  bind(encoder, state, {in, out, bias});
  dispatch(encoder, 4, 4);
  [encoder endEncoding];
  [buffer commit];
  CHECK_EQUAL(read(in), 1);
  CHECK_EQUAL(read(bias), 1);
  [queue commandBuffer];
  write(bias, 0, 2);
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "the host wrote byte 0", { [queue commandBuffer]; });
  (void)read(out, 2);
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "the host read byte 8", { [queue commandBuffer]; });
  gate.open();
  [buffer waitUntilCompleted];
  CHECK_EQUAL(read(out), 3);
}

CASE(no_hazard_after_an_event_of_the_gpu) {
  const Setting watch(settings().hazards, true);
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> from = float_buffer(4, 1), to = float_buffer(4, 10), later = float_buffer(4, 20);
  id<MTLSharedEvent> done = [[metal_device() newSharedEvent] autorelease];
  id<MTLSharedEvent> go_on = [[metal_device() newSharedEvent] autorelease];
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  copy(buffer, from, to, 16);
  [buffer encodeSignalEvent:done value:1];
  [buffer encodeWaitForEvent:go_on value:1];
  copy(buffer, to, later, 16);
  [buffer commit];
  CHECK([done waitUntilSignaledValue:1 timeoutMS:5000]);
  // The second copy still reads it, and writes the other one.
  CHECK_EQUAL(read(to), 1);
  write(from, 0, 2);
  [queue commandBuffer];
  (void)read(later);
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "the host read", { [queue commandBuffer]; });
  go_on.signaledValue = 1;
  [buffer waitUntilCompleted];
  CHECK_EQUAL(read(later), 1);
}

CASE(hazard_of_an_argument_encoder) {
  const Setting watch(settings().hazards, true);
  id<MTLFunction> function = kernel(
      R"(
        #include <metal_stdlib>
        using namespace metal;
        struct Arguments { device float* out [[id(0)]]; };
        kernel void write(constant Arguments& arguments [[buffer(0)]]) {
          arguments.out[0] = 1;
        })",
      "write");
  id<MTLArgumentEncoder> arguments = [[function newArgumentEncoderWithBufferIndex:0] autorelease];
  id<MTLBuffer> storage = shared_buffer(16), out = float_buffer(4);
  NSError* error = nil;
  id<MTLComputePipelineState> state = [[metal_device() newComputePipelineStateWithFunction:function
                                                                                     error:&error] autorelease];
  [arguments setArgumentBuffer:storage offset:0];
  [arguments setBuffer:out offset:0 atIndex:0];
  id<MTLCommandQueue> queue = metal_queue();
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  Encoder encoder = [buffer computeCommandEncoder];
  bind(encoder, state, {storage});
  [encoder useResource:out usage:MTLResourceUsageWrite];
  dispatch(encoder);
  [encoder endEncoding];
  [buffer commit];
  EXPECT_VIOLATION("-[MTLArgumentEncoder setBuffer:offset:atIndex:]", "has not completed uses the argument buffer", {
    [arguments setBuffer:out offset:4 atIndex:0];
  });
  gate.open();
  [buffer waitUntilCompleted];
  CHECK_EQUAL(read(out), 1);
  [arguments setBuffer:out offset:4 atIndex:0];
}

CASE(hazard_in_memory_of_the_program) {
  const Setting watch(settings().hazards, true);
  const ProgramMemory memory;
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> to = float_buffer(4);
  {
    Gate gate(queue);
    id<MTLCommandBuffer> buffer = commit_copy(queue, memory.buffer, to, 0, 16);
    // Beside what is copied: other things live in the same page.
    static_cast<float*>(memory.bytes)[4] = 1;
    gate.open();
    [buffer waitUntilCompleted];
  }
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = commit_copy(queue, memory.buffer, to, 0, 16);
  static_cast<float*>(memory.bytes)[3] = 1;
  gate.open();
  EXPECT_VIOLATION("-[MTLCommandBuffer commit]", "the host changed the memory", { [buffer waitUntilCompleted]; });
}

CASE(no_hazard_in_memory_that_the_gpu_writes_first) {
  const Setting watch(settings().hazards, true);
  const ProgramMemory memory;
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> from = float_buffer(4, 1), to = float_buffer(4, 10);
  Gate gate(queue);
  commit_copy(queue, from, memory.buffer, 0, 16);
  id<MTLCommandBuffer> buffer = commit_copy(queue, memory.buffer, to, 0, 16);
  gate.open();
  [buffer waitUntilCompleted];
  CHECK_EQUAL(read(to), 1);
  buffer = commit_copy(queue, memory.buffer, to, 0, 16);
  [buffer waitUntilCompleted];
}

CASE(hazards_can_be_left_unwatched) {
  HeldCopy held(/*watched=*/false);
  write(held.from, 0, 3);
  held.gate.open();
  [held.buffer waitUntilCompleted];
  CHECK_EQUAL(read(held.to), 3);
}
