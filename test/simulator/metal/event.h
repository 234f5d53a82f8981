#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"
#include "metal/gpu_order.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace mps_simulator {

struct EventNotification {
  uint64_t value;
  dispatch_queue_t queue;
  MTLSharedEventNotificationBlock block;
};

} // namespace mps_simulator

@interface SimulatedSharedEvent : SimulatedObject <MTLSharedEvent> {
 @public
  std::atomic<uint64_t> _value;
  mps_simulator::EventOrder _order;
 @private
  std::mutex _mutex;
  std::condition_variable _signaled;
  std::vector<mps_simulator::EventNotification> _notifications;
}
// From the GPU thread or the CPU. An event never goes back.
- (void)signalValue:(uint64_t)value;
@end
