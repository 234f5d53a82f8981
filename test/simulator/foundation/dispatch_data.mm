#include "foundation/dispatch_queue.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdlib>
#include <cstring>

using namespace mps_simulator;

@interface SimulatorDispatchData : NSObject <OS_dispatch_data> {
 @public
  const void* bytes;
  size_t size;
  std::function<void()> destructor;
  std::shared_ptr<BlockQueue> queue;
}
@end

@implementation SimulatorDispatchData

- (void)dealloc {
  // On the main queue of a process without an event loop it would never run.
  if (destructor && queue == nullptr) {
    destructor();
  } else if (destructor && !queue->is_main()) {
    queue->async("dispatch_data_create", std::move(destructor));
  }
  [super dealloc];
}

@end

namespace {

SimulatorDispatchData* checked(dispatch_data_t data, const char* function) {
  if (![data isKindOfClass:[SimulatorDispatchData class]]) {
    violation("%s: the object is %s", function, data == nil ? "NULL" : object_getClassName(data));
  }
  return (SimulatorDispatchData*)data;
}

} // namespace

dispatch_block_t _dispatch_data_destructor_free(void) {
  // Compared only; never called.
  static const dispatch_block_t marker = ^{
  };
  return marker;
}

dispatch_data_t dispatch_data_create(const void* buffer,
                                     size_t size,
                                     dispatch_queue_t queue,
                                     dispatch_block_t destructor) {
  if (buffer == nullptr && size > 0) {
    violation("%s: %zu bytes from NULL", __func__, size);
  }
  SimulatorDispatchData* data = [[SimulatorDispatchData alloc] init];
  data->bytes = buffer;
  data->size = size;
  if (queue != nil) {
    data->queue = block_queue(queue, __func__).shared_from_this();
  }
  if (destructor == DISPATCH_DATA_DESTRUCTOR_DEFAULT || destructor == DISPATCH_DATA_DESTRUCTOR_FREE) {
    void* memory = const_cast<void*>(buffer);
    if (destructor == DISPATCH_DATA_DESTRUCTOR_DEFAULT) {
      memory = std::malloc(size);
      std::memcpy(memory, buffer, size);
      data->bytes = memory;
    }
    data->queue = nullptr;
    data->destructor = [memory] { std::free(memory); };
  } else {
    data->destructor = own_block(destructor, __func__);
  }
  return data;
}

size_t dispatch_data_get_size(dispatch_data_t data) {
  return checked(data, __func__)->size;
}

dispatch_data_t dispatch_data_create_map(dispatch_data_t data, const void** buffer, size_t* size) {
  auto* content = checked(data, __func__);
  if (buffer != nullptr) {
    *buffer = content->bytes;
  }
  if (size != nullptr) {
    *size = content->size;
  }
  return [content retain];
}
