#include "foundation/dispatch_queue.h"
#include "support/error.h"

#include <Block.h>
#include <Foundation/Foundation.h>

using namespace mps_simulator;

@implementation SimulatorDispatchQueue

- (NSString*)description {
  return [NSString stringWithFormat:@"<dispatch_queue_t %s: %p>", state->label().c_str(), self];
}

@end

namespace mps_simulator {

BlockQueue& block_queue(dispatch_queue_t queue, const char* function) {
  if (![queue isKindOfClass:[SimulatorDispatchQueue class]]) {
    violation("%s: the queue is %s", function, queue == nil ? "NULL" : object_getClassName(queue));
  }
  return *((SimulatorDispatchQueue*)queue)->state;
}

std::function<void()> own_block(dispatch_block_t block, const char* function) {
  if (block == nullptr) {
    violation("%s: the block is NULL", function);
  }
  const std::shared_ptr<void> owned(_Block_copy((const void*)block), [](void* copy) { _Block_release(copy); });
  return [owned] { ((dispatch_block_t)owned.get())(); };
}

} // namespace mps_simulator

namespace {

dispatch_queue_t make_queue(const char* label, bool is_main) {
  SimulatorDispatchQueue* queue = [[SimulatorDispatchQueue alloc] init];
  queue->state = std::make_shared<BlockQueue>(label == nullptr ? "" : label, is_main);
  return queue;
}

// The simulator's own errors may leave a block: they stand for a call that did
// not happen, and Python must receive them. On a Mac any exception that reaches
// libdispatch ends the process; here it is reported as an error.
void run_in_block(const char* function, const std::function<void()>& work) {
  const char* ending =
      "%s: a C++ exception left the block, which would end the process on a Mac; catch it inside the block. The exception: %s";
  try {
    work();
  } catch (const std::exception& error) {
    if (is_own_error(error)) {
      throw;
    }
    const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
    violation(ending, function, with_backtrace == nullptr ? error.what() : with_backtrace->what_without_backtrace());
  } catch (...) {
    violation(ending, function, "of unknown type");
  }
}

} // namespace

dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attributes) {
  if (attributes != nil) {
    unsupported("%s with attributes", __func__);
  }
  return make_queue(label, /*is_main=*/false);
}

dispatch_queue_t dispatch_get_main_queue(void) {
  static const dispatch_queue_t main_queue = make_queue("com.apple.main-thread", /*is_main=*/true);
  return main_queue;
}

void dispatch_sync(dispatch_queue_t queue, dispatch_block_t block) {
  if (block == nullptr) {
    violation("%s: the block is NULL", __func__);
  }
  // A caller may release the queue inside the block.
  const auto state = block_queue(queue, __func__).shared_from_this();
  state->sync(__func__, [&] { run_in_block(__func__, [block] { block(); }); });
}

void dispatch_async(dispatch_queue_t queue, dispatch_block_t block) {
  block_queue(queue, __func__).async(__func__, own_block(block, __func__));
}

void dispatch_queue_set_specific(dispatch_queue_t queue,
                                 const void* key,
                                 void* context,
                                 dispatch_function_t destructor) {
  block_queue(queue, __func__).set_specific(key, context, destructor);
}

void* dispatch_get_specific(const void* key) {
  auto* current = BlockQueue::innermost_of_this_thread();
  return current == nullptr ? nullptr : current->specific(key);
}

void dispatch_release(dispatch_object_t object) {
  [object release];
}
