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

// The order in which the blocks of a queue run.
enum class QueueKind { Serial, Concurrent, Main };

// First in, first out. An exclusive item runs alone; every item of a serial
// queue is exclusive, and so are the barriers of a concurrent one.
class BlockQueue : public std::enable_shared_from_this<BlockQueue> {
 public:
  BlockQueue(std::string label, QueueKind kind) : label_(std::move(label)), kind_(kind) {}

  // Runs the work when its turn has come: on the calling thread, which is an
  // optimization that Apple does not promise. By seed, another thread runs it.
  void sync(bool barrier, const char* function, const std::function<void()>& work);
  void async(bool barrier, const char* function, std::function<void()> work);

  const std::string& label() const {
    return label_;
  }
  QueueKind kind() const {
    return kind_;
  }
  bool held_by_this_thread() const;
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
    bool exclusive;
    Waiter* waiter; // of sync(); otherwise:
    std::function<void()> work;
  };
  struct Specific {
    void* context;
    void (*destructor)(void*);
  };
  class Holding;

  bool may_start(bool exclusive) const;
  void start_ready_items();
  void finish(bool exclusive);
  void run_elsewhere(bool exclusive, const std::function<void()>& work);

  const std::string label_;
  const QueueKind kind_;
  std::mutex mutex_;
  std::deque<Item> items_;
  size_t running_ = 0;
  bool exclusive_running_ = false;
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
