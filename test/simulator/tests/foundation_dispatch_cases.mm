// Queues.
#include "foundation_checks.h"

#include "support/settings.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using mps_simulator::settings;

static const dispatch_block_t kNothing = ^{
};

CASE(sync_runs_on_the_queue) {
  const dispatch_queue_t queue = dispatch_queue_create("sync", DISPATCH_QUEUE_SERIAL);
  __block std::thread::id thread;
  dispatch_sync(queue, ^{
    thread = std::this_thread::get_id();
  });
  if (settings().seed <= 1) {
    CHECK((thread == std::this_thread::get_id()) == (settings().seed == 0));
  }
  dispatch_release(queue);
}

CASE(serial_queue_keeps_the_order) {
  const dispatch_queue_t queue = dispatch_queue_create("order", nullptr);
  __block std::vector<int> seen;
  for (int i = 0; i < 200; ++i) {
    if (i % 7 == 3) {
      dispatch_sync(queue, ^{
        seen.push_back(i);
      });
    } else {
      dispatch_async(queue, ^{
        seen.push_back(i);
      });
    }
  }
  dispatch_sync(queue, kNothing);
  CHECK_EQUAL(seen.size(), 200ul);
  for (int i = 0; i < 200; ++i) {
    CHECK_EQUAL(seen[i], i);
  }
  [queue release];
}

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

CASE(dispatch_data_runs_its_destructor) {
  std::atomic<int> destroyed{0};
  auto* const counter = &destroyed;
  static const char bytes[] = "abc";
  const dispatch_queue_t queue = dispatch_queue_create("destructor", nullptr);
  dispatch_data_t data = dispatch_data_create(bytes, 4, queue, ^{
    counter->fetch_add(1);
  });
  const void* mapped = nullptr;
  size_t size = 0;
  dispatch_release(dispatch_data_create_map(data, &mapped, &size));
  CHECK(mapped == bytes);
  CHECK_EQUAL(size, 4ul);
  CHECK_EQUAL(dispatch_data_get_size(data), 4ul);
  dispatch_release(data);
  dispatch_sync(queue, kNothing);
  CHECK_EQUAL(destroyed.load(), 1);
  data = dispatch_data_create(bytes, 4, nil, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
  dispatch_data_create_map(data, &mapped, &size);
  CHECK(mapped != bytes);
  [data release];
  dispatch_release(data);
  dispatch_release(queue);
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

CASE(queue_specific_values) {
  static const char key = 0;
  static int value = 5;
  const dispatch_queue_t queue = dispatch_queue_create("specific", nullptr);
  dispatch_queue_set_specific(queue, &key, &value, nullptr);
  __block void* seen = nullptr;
  dispatch_sync(queue, ^{
    seen = dispatch_get_specific(&key);
  });
  CHECK(seen == &value);
  CHECK(dispatch_get_specific(&key) == nullptr);
  dispatch_release(queue);
}

// Ends the process; test_foundation.py calls it in one of its own.
extern "C" void simulator_throw_asynchronously() {
  const dispatch_queue_t queue = dispatch_queue_create("ends the process", nullptr);
  dispatch_async(queue, ^{
    throw std::runtime_error("no caller can catch this");
  });
  dispatch_sync(queue, kNothing);
  std::this_thread::sleep_for(std::chrono::seconds(10));
}
