// What is released too early, and what never ends.

#import "metal_objects.h"

#include "foundation/object_memory.h"
#include "metal/command.h"
#include "support/settings.h"

#include <thread>

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

int64_t leaked(const char* class_name) {
  const auto leaks = autorelease_leaks();
  const auto found = leaks.find(class_name);
  return found == leaks.end() ? 0 : found->second;
}

} // namespace

// MARK: Released objects

CASE(violation_message_to_a_released_object) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  id<MTLCommandBuffer> buffer = nil;
  id<MTLBlitCommandEncoder> encoder = nil;
  @autoreleasepool {
    buffer = [queue commandBuffer];
    encoder = [buffer blitCommandEncoder];
    [encoder endEncoding];
  }
  EXPECT_VIOLATION("-[MTLBlitCommandEncoder endEncoding]", "deallocated", { [encoder endEncoding]; });
  EXPECT_VIOLATION("-[MTLCommandBuffer commit]", "deallocated", { [buffer commit]; });
  [queue release];
  EXPECT_VIOLATION("-[MTLCommandQueue commandBuffer]", "deallocated", { [queue commandBuffer]; });
  id<MTLSharedEvent> event = [metal_device() newSharedEvent];
  [event release];
  EXPECT_VIOLATION("-[MTLSharedEvent signaledValue]", "deallocated", { (void)event.signaledValue; });
}

CASE(violation_released_objects_in_encoding) {
  id<MTLComputePipelineState> state = add_pipeline();
  id<MTLComputePipelineState> released = nil;
  @autoreleasepool {
    released = add_pipeline();
  }
  id<MTLSharedEvent> event = [metal_device() newSharedEvent];
  [event release];
  id<MTLHeap> heap = nil;
  @autoreleasepool {
    heap = make_heap(4096);
  }
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  EXPECT_VIOLATION("-[MTLSharedEvent isKindOfClass:]", "deallocated", { [buffer encodeSignalEvent:event value:1]; });
  Encoder encoder = [buffer computeCommandEncoder];
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder setComputePipelineState:]", "been released", {
    [encoder setComputePipelineState:released];
  });
  EXPECT_VIOLATION("-[MTLComputeCommandEncoder useHeap:]", "been released", { [encoder useHeap:heap]; });
  // The same calls with live objects.
  [encoder setComputePipelineState:state];
  [encoder endEncoding];
  [buffer encodeSignalEvent:[[metal_device() newSharedEvent] autorelease] value:1];
  finish(buffer);
}

// MARK: What never comes

CASE(violation_completion_handler_that_never_runs) {
  id<MTLCommandQueue> queue = metal_queue();
  @autoreleasepool {
    id<MTLCommandBuffer> buffer = [queue commandBuffer];
    buffer.label = @"forgotten";
    [buffer addCompletedHandler:^(id<MTLCommandBuffer>){
    }];
  }
  EXPECT_VIOLATION(
      "-[MTLCommandBuffer addCompletedHandler:]", "command buffer forgotten (", { [queue commandBuffer]; });
  // Reported once; without a handler nothing is missed.
  @autoreleasepool {
    [queue commandBuffer];
  }
  [queue commandBuffer];
  __block bool ran = false;
  @autoreleasepool {
    id<MTLCommandBuffer> buffer = [queue commandBuffer];
    [buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
      ran = true;
    }];
    finish(buffer);
  }
  [queue commandBuffer];
  CHECK(ran);
}

CASE(violation_wait_for_an_event_that_is_never_signaled) {
  const Setting short_patience(settings().wait_limit_milliseconds, 200u);
  id<MTLCommandQueue> queue = metal_queue();
  id<MTLSharedEvent> event = [[metal_device() newSharedEvent] autorelease];
  event.label = @"starting gun";
  event.signaledValue = 2;
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer encodeWaitForEvent:event value:3];
  [buffer commit];
  EXPECT_VIOLATION("-[MTLCommandBuffer waitUntilCompleted]",
                   "waits for the event 'starting gun' to reach 3, which nothing signals (it "
                   "is at 2)",
                   { [buffer waitUntilCompleted]; });
  event.signaledValue = 3;
  [buffer waitUntilCompleted];
}

CASE(violation_handler_that_does_not_return) {
  const Setting short_patience(settings().wait_limit_milliseconds, 200u);
  id<MTLSharedEvent> event = [[metal_device() newSharedEvent] autorelease];
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  [buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
    [event waitUntilSignaledValue:1 timeoutMS:20000];
  }];
  [buffer commit];
  EXPECT_VIOLATION("-[MTLCommandBuffer waitUntilCompleted]", "does not return", { [buffer waitUntilCompleted]; });
  event.signaledValue = 1;
  [buffer waitUntilCompleted];
}

CASE(long_work_is_no_endless_wait) {
  const Setting short_patience(settings().wait_limit_milliseconds, 200u);
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  append_command(buffer, {"long", [] { std::this_thread::sleep_for(std::chrono::milliseconds(700)); }});
  finish(buffer);
}

// MARK: Autorelease

CASE(pool_that_is_never_drained_is_counted) {
  reset_autorelease_leaks();
  std::thread([] { objc_autoreleasePoolPush(); }).join();
  CHECK_EQUAL(leaked("(pools never drained)"), 1);
  std::thread([] {
    void* pool = objc_autoreleasePoolPush();
    // One that an exception skipped is drained with the outer one.
    objc_autoreleasePoolPush();
    objc_autoreleasePoolPop(pool);
  }).join();
  CHECK_EQUAL(leaked("(pools never drained)"), 1);
  reset_autorelease_leaks();
}
