// The order in which the blocks of a queue run, and the objects behind the dispatch_…_t types.
#pragma once

#include <dispatch/dispatch.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mps_simulator {

// Runs the work soon on a thread of its own or on one that is idle, inside an
// autorelease pool. A C++ exception that leaves the work ends the process, as
// on a Mac.
void run_on_worker(std::function<void()> work);

// First in, first out, one at a time. Every queue is serial.
class BlockQueue : public std::enable_shared_from_this<BlockQueue> {
 public:
  BlockQueue(std::string label, bool is_main) : label_(std::move(label)), is_main_(is_main) {}

  // Runs the work when its turn has come: on the calling thread, which is an
  // optimization that Apple does not promise. By seed, another thread runs it.
  void sync(const char* function, const std::function<void()>& work);
  void async(const char* function, std::function<void()> work);

  const std::string& label() const {
    return label_;
  }
  bool is_main() const {
    return is_main_;
  }
  static BlockQueue* innermost_of_this_thread();

  void set_specific(const void* key, void* context, void (*destructor)(void*));
  void* specific(const void* key);
  ~BlockQueue();

 private:
  struct Waiter {
    std::condition_variable changed;
    bool turn = false;
  };
  struct Item {
    Waiter* waiter; // of sync(); otherwise:
    std::function<void()> work;
  };
  struct Specific {
    void* context;
    void (*destructor)(void*);
  };
  class Holding;

  void check_is_served(const char* function, const char* outcome) const;
  void start_next_item();
  void finish();
  void run_elsewhere(const std::function<void()>& work);

  const std::string label_;
  const bool is_main_;
  std::mutex mutex_;
  std::deque<Item> items_;
  bool running_ = false;
  std::map<const void*, Specific> specifics_;
};

} // namespace mps_simulator

// The objects behind the dispatch_…_t types.

@interface SimulatorDispatchQueue : NSObject <OS_dispatch_queue> {
 @public
  std::shared_ptr<mps_simulator::BlockQueue> state;
}
@end

namespace mps_simulator {

// The state behind the queue; a violation if there is none.
BlockQueue& block_queue(dispatch_queue_t queue, const char* function);

// A block as a function that owns a copy of it.
std::function<void()> own_block(dispatch_block_t block, const char* function);

} // namespace mps_simulator
