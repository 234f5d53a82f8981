#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"
#include "metal/gpu_order.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

@interface SimulatedFence : SimulatedObject <MTLFence> {
 @public
  // The pass that updated it last, and what was before that one.
  mps_simulator::PassSet _before;
}
@end

@interface SimulatedEvent : SimulatedObject <MTLEvent> {
 @public
  std::atomic<uint64_t> _value;
  mps_simulator::EventOrder _order;
}
// From the GPU thread or the CPU. An event never goes back.
- (void)signalValue:(uint64_t)value;
@end

namespace mps_simulator {

struct EventNotification {
  uint64_t value;
  dispatch_queue_t queue;
  MTLSharedEventNotificationBlock block;
};

} // namespace mps_simulator

@interface SimulatedSharedEvent : SimulatedEvent <MTLSharedEvent> {
 @private
  std::mutex _mutex;
  std::condition_variable _signaled;
  std::vector<mps_simulator::EventNotification> _notifications;
}
@end
