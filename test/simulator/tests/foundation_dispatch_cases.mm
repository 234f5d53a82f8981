// Queues.
#include "foundation_checks.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

static const dispatch_block_t kNothing = ^{
};

CASE(serial_queue_excludes) {
  const dispatch_queue_t queue = dispatch_queue_create("exclude", nullptr);
  __block int counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([queue, &counter = counter] {
      int* const place = &counter;
      for (int i = 0; i < 500; ++i) {
        dispatch_sync(queue, ^{
          const int value = *place;
          if (i % 100 == 0) {
            std::this_thread::yield();
          }
          *place = value + 1;
        });
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK_EQUAL(counter, 2000);
  dispatch_release(queue);
}

CASE(sync_on_own_queue_is_a_deadlock) {
  const dispatch_queue_t queue = dispatch_queue_create("self", nullptr);
  const dispatch_queue_t other = dispatch_queue_create("other", nullptr);
  CHECK_VIOLATION("deadlock, the queue \"self\"", dispatch_sync(queue, ^{
                    dispatch_sync(other, ^{
                      dispatch_sync(queue, kNothing);
                    });
                  }));
  // Both are free again.
  __block int runs = 0;
  dispatch_sync(queue, ^{
    dispatch_sync(other, ^{
      ++runs;
    });
  });
  CHECK_EQUAL(runs, 1);
  dispatch_release(queue);
  dispatch_release(other);
}

CASE(exception_leaving_a_block) {
  const dispatch_queue_t queue = dispatch_queue_create("throwing", nullptr);
  CHECK_VIOLATION("would end the process on a Mac; catch it inside the block. The exception: careless",
                  dispatch_sync(queue, ^{
                    throw std::runtime_error("careless");
                  }));
  CHECK_VIOLATION("The exception: checked", dispatch_sync(queue, ^{
                    TORCH_CHECK(false, "checked");
                  }));
  CHECK_VIOLATION("The exception: of a backend", dispatch_sync(queue, ^{
                    TORCH_CHECK_NOT_IMPLEMENTED(false, "of a backend");
                  }));
  CHECK_VIOLATION("(simulator): own", dispatch_sync(queue, ^{
                    mps_simulator::violation("own");
                  }));
  CHECK_UNSUPPORTED("this is not simulated", dispatch_sync(queue, ^{
                      mps_simulator::unsupported("this");
                    }));
  __block bool ran = false;
  dispatch_sync(queue, ^{
    ran = true;
  });
  CHECK(ran);
  dispatch_release(queue);
}

CASE(main_queue_is_not_served) {
  CHECK_VIOLATION("dispatch_sync: nothing runs the main queue", dispatch_sync(dispatch_get_main_queue(), kNothing));
  CHECK_VIOLATION("dispatch_async: nothing runs the main queue", dispatch_async(dispatch_get_main_queue(), kNothing));
  CHECK_VIOLATION("dispatch_sync: the queue is NULL", dispatch_sync(nil, kNothing));
}

CASE(async_blocks_have_a_pool) {
  const dispatch_queue_t queue = dispatch_queue_create("pool", nullptr);
  NSObject* object = [NSObject new];
  dispatch_async(queue, ^{
    [[object retain] autorelease];
  });
  dispatch_sync(queue, kNothing);
  // The worker drains after the block has left the queue.
  for (int i = 0; i < 1000 && object.retainCount != 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK_EQUAL(object.retainCount, 1ul);
  [object release];
  dispatch_release(queue);
}

// Ends the process; test_metal.py calls it in one of its own.
extern "C" void simulator_throw_asynchronously() {
  const dispatch_queue_t queue = dispatch_queue_create("ends the process", nullptr);
  dispatch_async(queue, ^{
    throw std::runtime_error("no caller can catch this");
  });
  dispatch_sync(queue, kNothing);
  std::this_thread::sleep_for(std::chrono::seconds(10));
}
