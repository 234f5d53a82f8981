// Queues, command buffers, blits, events: the order in which things happen.

#import "metal_objects.h"

#include "metal/command.h"
#include "metal/command_buffer.h"
#include "support/settings.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <unistd.h>

// nil is passed on purpose.
#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

CASE(commands_run_after_commit) {
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLBuffer> from = float_buffer(4, 1), to = float_buffer(4, 10);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  CHECK(buffer.status == MTLCommandBufferStatusNotEnqueued);
  CHECK(buffer.commandQueue == queue);
  CHECK(buffer.device == metal_device());
  copy(buffer, from, to, 16);
  pause_briefly();
  CHECK_EQUAL(floats(to)[0], 10);
  floats(from)[0] = 7;
  finish(buffer);
  CHECK(buffer.status == MTLCommandBufferStatusCompleted);
  CHECK(buffer.error == nil);
  CHECK_EQUAL(floats(to)[0], 7);
  CHECK_EQUAL(floats(to)[3], 4);
  CHECK(buffer.GPUStartTime > 0);
  CHECK(buffer.GPUEndTime >= buffer.GPUStartTime);
  CHECK(buffer.kernelEndTime >= buffer.kernelStartTime);
}

CASE(handlers_run_before_wait_returns) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  __block std::string order;
  __block std::thread::id handler_thread;
  __block bool completed = false;
  [buffer addScheduledHandler:^(id<MTLCommandBuffer>) {
    order += "s";
  }];
  [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
    completed = done.status == MTLCommandBufferStatusCompleted;
    order += "1";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    handler_thread = std::this_thread::get_id();
  }];
  [buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
    order += "2";
  }];
  finish(buffer);
  CHECK(order == "s12");
  CHECK(completed);
  CHECK(handler_thread != std::this_thread::get_id());
  CHECK(handler_thread != std::thread::id());
}

CASE(used_objects_live_until_completion) {
  id<MTLCommandQueue> queue = metal_queue();
  Gate gate(queue);
  id<MTLBuffer> from = float_buffer(4), to = float_buffer(4);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  const auto count = [from retainCount];
  copy(buffer, from, to, 16);
  CHECK(from.retainCount > count);
  [buffer commit];
  CHECK(from.retainCount > count);
  gate.open();
  [buffer waitUntilCompleted];
  CHECK_EQUAL(from.retainCount, count);
}

CASE(failed_command_is_reported_once) {
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  bool reached = false;
  append_command(buffer, {"an op", [] { unsupported("-[Some op]"); }});
  append_command(buffer, {"next", [&] { reached = true; }});
  [buffer commit];
  EXPECT_ERROR("-[Some op] is not simulated", { [buffer waitUntilCompleted]; });
  CHECK(!reached);
  CHECK(buffer.status == MTLCommandBufferStatusError);
  CHECK(buffer.error.code == MTLCommandBufferErrorInternal);
  CHECK(std::string(buffer.error.localizedDescription.UTF8String).find("-[Some op]") != std::string::npos);
  [buffer waitUntilCompleted];
}

CASE(unnoticed_failure_is_reported_by_the_next_wait) {
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLCommandBuffer> failing = [queue commandBuffer];
  append_command(failing, {"an op", [] { throw std::runtime_error("lost"); }});
  [failing commit];
  id<MTLCommandBuffer> next = [queue commandBuffer];
  bool reached = false;
  append_command(next, {"next", [&] { reached = true; }});
  [next commit];
  EXPECT_ERROR("lost", { [next waitUntilCompleted]; });
  CHECK(reached);
  CHECK(next.status == MTLCommandBufferStatusCompleted);
  [next waitUntilCompleted];
}

CASE(null_mode_drops_commands_and_keeps_events) {
  settings().null_mode = true;
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLSharedEvent> event = [[metal_device() newSharedEvent] autorelease];
  id<MTLBuffer> from = float_buffer(4, 1), to = float_buffer(4, 10);
  id<MTLCommandBuffer> plain = [queue commandBuffer];
  copy(plain, from, to, 16);
  __block bool handled = false;
  [plain addCompletedHandler:^(id<MTLCommandBuffer>) {
    handled = true;
  }];
  const auto count = from.retainCount;
  [plain commit];
  [plain waitUntilCompleted];
  CHECK(from.retainCount < count);
  id<MTLCommandBuffer> signaling = [queue commandBuffer];
  copy(signaling, from, to, 16);
  [signaling encodeSignalEvent:event value:1];
  finish(signaling);
  settings().null_mode = false;
  CHECK(handled);
  CHECK_EQUAL(floats(to)[0], 10);
  CHECK_EQUAL(event.signaledValue, 1);
}

CASE(delayed_gpu_shows_a_host_race) {
  // Reading early would be reported otherwise.
  settings().hazards = false;
  id<MTLCommandQueue> queue = metal_queue();
  settings().delay_microseconds = 50000;
  settings().seed = 1;
  id<MTLBuffer> from = float_buffer(4, 1), to = float_buffer(4, 10);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  for (int i = 0; i < 4; ++i) {
    copy(buffer, from, to, 16);
  }
  [buffer commit];
  const bool early = floats(to)[0] == 10;
  [buffer waitUntilCompleted];
  settings().delay_microseconds = 0;
  settings().hazards = true;
  CHECK(early);
  CHECK_EQUAL(floats(to)[0], 1);
}

CASE(capture_manager_keeps_its_state) {
  MTLCaptureManager* manager = [MTLCaptureManager sharedCaptureManager];
  CHECK(![manager supportsDestination:MTLCaptureDestinationDeveloperTools]);
  MTLCaptureDescriptor* descriptor = [[[MTLCaptureDescriptor alloc] init] autorelease];
  descriptor.captureObject = metal_device();
  descriptor.destination = MTLCaptureDestinationGPUTraceDocument;
  NSError* error = nil;
  const auto refused = [&](NSString* reason) {
    CHECK(![manager startCaptureWithDescriptor:descriptor error:&error]);
    CHECK([error.localizedDescription isEqual:reason]);
  };
  refused(@"Capturing is not enabled: set MTL_CAPTURE_ENABLED=1.");
  setenv("MTL_CAPTURE_ENABLED", "1", 1);
  refused(@"The descriptor has no object or no output URL.");
  descriptor.outputURL = [NSURL fileURLWithPath:@"/dev/null"];
  CHECK([manager startCaptureWithDescriptor:descriptor error:&error]);
  CHECK(manager.isCapturing);
  refused(@"A capture is already in progress.");
  [manager stopCapture];
  CHECK(!manager.isCapturing);
  unsetenv("MTL_CAPTURE_ENABLED");
}

// MARK: Violations

CASE(violation_encoder_gone_without_end) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  @autoreleasepool {
    [buffer computeCommandEncoder];
  }
  EXPECT_VIOLATION("-[MTLCommandBuffer commit]", "has been released", { [buffer commit]; });
  // Reported once: the process goes on.
  finish(buffer);
}

CASE(failed_blit_does_not_stay_in_the_way) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  id<MTLBuffer> target = float_buffer(2);
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  EXPECT_VIOLATION("-[MTLBlitCommandEncoder fillBuffer:range:value:]", "beyond", {
    [encoder fillBuffer:target range:NSMakeRange(0, 16) value:0];
  });
  // The encoder was not ended, because the error left the function first.
  encoder = [buffer blitCommandEncoder];
  [encoder fillBuffer:target range:NSMakeRange(0, 8) value:0];
  [encoder endEncoding];
  finish(buffer);
  CHECK_EQUAL(floats(target)[1], 0);
}

CASE(device_supports_the_families_up_to_its_own) {
  for (unsigned family : {7u, 8u, 9u}) {
    const Setting setting(settings().gpu_family, family);
    for (unsigned other = 1; other <= 10; ++other) {
      CHECK_EQUAL([metal_device() supportsFamily:static_cast<MTLGPUFamily>(1000 + other)], other <= family);
    }
    CHECK([metal_device() supportsFamily:MTLGPUFamilyMac2]);
  }
}

CASE(violation_second_encoder) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  EXPECT_VIOLATION("-[MTLCommandBuffer computeCommandEncoder]", "has not ended", { [buffer computeCommandEncoder]; });
  EXPECT_VIOLATION("append_command()", "has not ended", { append_command(buffer, {"command", [] {}}); });
  EXPECT_VIOLATION("-[MTLCommandBuffer commit]", "has not ended", { [buffer commit]; });
  [encoder endEncoding];
}

CASE(violation_use_after_end_encoding) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  [encoder endEncoding];
  EXPECT_VIOLATION("-[MTLBlitCommandEncoder fillBuffer:range:value:]", "has ended", {
    [encoder fillBuffer:shared_buffer(16) range:NSMakeRange(0, 4) value:0];
  });
  EXPECT_VIOLATION("-[MTLCommandEncoder endEncoding]", "already ended", { [encoder endEncoding]; });
}

CASE(violation_commit_twice) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  [buffer commit];
  EXPECT_VIOLATION("-[MTLCommandBuffer commit]", "already been committed", { [buffer commit]; });
  EXPECT_VIOLATION(
      "-[MTLCommandBuffer blitCommandEncoder]", "already been committed", { [buffer blitCommandEncoder]; });
  EXPECT_VIOLATION("-[MTLCommandBuffer addCompletedHandler:]", "already been committed", {
    [buffer addCompletedHandler:^(id<MTLCommandBuffer>){
    }];
  });
  EXPECT_VIOLATION("append_command()", "already been committed", { append_command(buffer, {"command", [] {}}); });
  [buffer waitUntilCompleted];
}

CASE(violation_wait_without_commit) {
  EXPECT_VIOLATION("-[MTLCommandBuffer waitUntilCompleted]", "wait for ever", {
    [[metal_queue() commandBuffer] waitUntilCompleted];
  });
}

CASE(violation_no_command_buffer_left) {
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLCommandBuffer> first = [queue commandBuffer];
  for (int i = 1; i < 64; ++i) {
    [queue commandBuffer];
  }
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "wait for ever", { [queue commandBuffer]; });
  finish(first);
  [queue commandBuffer];
}

CASE(violation_blit_out_of_bounds) {
  id<MTLBuffer> small = shared_buffer(16), large = shared_buffer(64);
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  const char* call = "-[MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:]";
  EXPECT_VIOLATION(call, "source offset 8 + size 16", {
    [encoder copyFromBuffer:small sourceOffset:8 toBuffer:large destinationOffset:0 size:16];
  });
  EXPECT_VIOLATION(call, "destination offset 0 + size 32", {
    [encoder copyFromBuffer:large sourceOffset:0 toBuffer:small destinationOffset:0 size:32];
  });
  EXPECT_VIOLATION(
      call, "overlap", { [encoder copyFromBuffer:large sourceOffset:0 toBuffer:large destinationOffset:8 size:16]; });
  EXPECT_VIOLATION(call, "source buffer is nil", {
    [encoder copyFromBuffer:(id<MTLBuffer>)nil sourceOffset:0 toBuffer:large destinationOffset:8 size:16];
  });
  EXPECT_VIOLATION("-[MTLBlitCommandEncoder fillBuffer:range:value:]", "range offset 12", {
    [encoder fillBuffer:small range:NSMakeRange(12, 8) value:0];
  });
  [encoder endEncoding];
}

CASE(violation_debug_groups) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  EXPECT_VIOLATION("-[MTLCommandEncoder popDebugGroup]", "no debug group", { [encoder popDebugGroup]; });
  [encoder pushDebugGroup:@"group"];
  [encoder popDebugGroup];
  [encoder pushDebugGroup:@"left open, which Metal allows"];
  [encoder endEncoding];
}

CASE(violation_command_buffer_on_two_threads) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  Encoder encoder = [buffer computeCommandEncoder];
  {
    const UsedElsewhere other(root_command_buffer(buffer, __func__)->_oneThread);
    EXPECT_VIOLATION("-[MTLComputeCommandEncoder setComputePipelineState:]",
                     "another thread is using the command buffer",
                     { [encoder setComputePipelineState:add_pipeline()]; });
  }
  add_with_bias(encoder, float_buffer(4), float_buffer(4));
  [encoder endEncoding];
  finish(buffer);
}

CASE(commits_decide_the_order) {
  id<MTLBuffer> x = float_buffer(1, 1), y = shared_buffer(4), z = shared_buffer(4);
  id<MTLCommandBuffer> first_encoded = [metal_queue() commandBuffer], second_encoded = [metal_queue() commandBuffer];
  copy(first_encoded, y, z, 4);
  copy(second_encoded, x, y, 4);
  [second_encoded commit];
  finish(first_encoded);
  CHECK_EQUAL(*floats(z), 1.0f);
}

CASE(buffer_that_is_not_committed_does_nothing) {
  id<MTLBuffer> x = float_buffer(1, 1), y = float_buffer(1, 2);
  const NSUInteger references = x.retainCount;
  @autoreleasepool {
    copy([metal_queue() commandBuffer], x, y, 4);
    CHECK(x.retainCount > references);
  }
  CHECK_EQUAL(x.retainCount, references);
  finish([metal_queue() commandBuffer]);
  CHECK_EQUAL(*floats(y), 2.0f);
}
