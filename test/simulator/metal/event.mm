#import "metal/event.h"

#include "metal/device.h"
#include "metal/gpu.h"
#include "support/counters.h"
#include "support/error.h"

#include <chrono>

using namespace mps_simulator;

@implementation SimulatedSharedEvent

- (void)dealloc {
  for (auto& notification : _notifications) {
    [notification.queue release];
    [notification.block release];
  }
  [super dealloc];
}

- (uint64_t)signaledValue {
  COUNT_CALL();
  const auto value = _value.load(std::memory_order_acquire);
  GpuOrder::instance().host_sees(_order, value);
  return value;
}

- (void)setSignaledValue:(uint64_t)value {
  COUNT_CALL();
  GpuOrder::instance().host_signals(_order, value);
  [self signalValue:value];
}

- (void)signalValue:(uint64_t)value {
  std::vector<EventNotification> due;
  {
    const std::lock_guard<std::mutex> lock(_mutex);
    _value.store(value, std::memory_order_release);
    for (size_t i = 0; i < _notifications.size();) {
      if (_notifications[i].value <= value) {
        due.push_back(_notifications[i]);
        _notifications.erase(_notifications.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    _signaled.notify_all();
  }
  Gpu::instance().wake();
  for (const auto& notification : due) {
    [self deliver:notification value:value];
    [notification.queue release];
    [notification.block release];
  }
}

- (void)deliver:(const EventNotification&)notification value:(uint64_t)value {
  MTLSharedEventNotificationBlock block = notification.block;
  GpuOrder::instance().host_sees(_order, notification.value);
  dispatch_async(notification.queue, ^{
    @autoreleasepool {
      block(self, value);
    }
  });
}

- (void)notifyListener:(MTLSharedEventListener*)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block {
  COUNT_CALL();
  check_process(__func__);
  VALIDATE(listener, "the listener is nil");
  VALIDATE(block, "the block is nil");
  EventNotification notification{value, [listener.dispatchQueue retain], [block copy]};
  uint64_t current = 0;
  {
    const std::lock_guard<std::mutex> lock(_mutex);
    current = _value.load(std::memory_order_relaxed);
    if (current < value) {
      _notifications.push_back(notification);
      return;
    }
  }
  [self deliver:notification value:current];
  [notification.queue release];
  [notification.block release];
}

- (BOOL)waitUntilSignaledValue:(uint64_t)value timeoutMS:(uint64_t)milliseconds {
  COUNT_CALL();
  check_process(__func__);
  bool signaled = false;
  {
    std::unique_lock<std::mutex> lock(_mutex);
    signaled = _signaled.wait_for(
        lock, std::chrono::milliseconds(milliseconds), [&] { return _value.load(std::memory_order_relaxed) >= value; });
  }
  if (signaled) {
    GpuOrder::instance().host_sees(_order, value);
  }
  return signaled;
}

@end

@implementation MTLSharedEventListener

- (instancetype)init {
  COUNT_CALL();
  if ((self = [super init])) {
    _dispatchQueue = dispatch_queue_create("MTLSharedEventListener", nullptr);
  }
  return self;
}

- (void)dealloc {
  [_dispatchQueue release];
  [super dealloc];
}

@end
