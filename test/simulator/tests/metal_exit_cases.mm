// What a process may leave behind. Run by test_metal.py in processes of their own.

#import "metal_objects.h"

#include "metal/command.h"
#include "support/deferred.h"

#include <chrono>
#include <thread>

using namespace mps_simulator;
using namespace mps_simulator::cases;

CASE(leave_work_in_flight) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  for (int i = 0; i < 10; ++i) {
    id<MTLCommandBuffer> buffer = [queue commandBuffer];
    append_command(buffer, {"slow", [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }});
    [buffer commit];
  }
}

CASE(leave_a_blocked_queue) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer encodeWaitForEvent:[metal_device() newSharedEvent] value:1];
  [buffer commit];
}

CASE(leave_a_failure) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  append_command(buffer, {"lost", [] { throw std::runtime_error("left behind"); }});
  [buffer commit];
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

CASE(leave_a_failure_to_come) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  append_command(buffer, {"slow", [] {
                            std::this_thread::sleep_for(std::chrono::milliseconds(200));
                            throw std::runtime_error("left behind");
                          }});
  [buffer commit];
}

CASE(leave_misuse) {
  defer_violation("-[SimulatedBuffer contents]: left behind");
}

CASE(leave_a_hazard) {
  id<MTLCommandQueue> queue = [metal_device() newCommandQueue];
  id<MTLBuffer> memory = float_buffer(4);
  Gate gate(queue);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  blit(buffer,
       [&](id<MTLBlitCommandEncoder> encoder) { [encoder fillBuffer:memory range:NSMakeRange(0, 16) value:7]; });
  [buffer commit];
  floats(memory)[0] = 1;
  gate.open();
}
