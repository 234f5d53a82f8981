// Whether an executable outlives the work that it has encoded. Apple does not
// say that a command buffer retains it, so releasing it earlier is an error.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace mps_simulator::graph {

// The state that an executable and its work on the GPU share.
struct ExecutableLife {
  std::string name; // for messages
  std::atomic<size_t> in_flight{0};
  std::atomic<bool> released{false};
  // While work was in flight.
  std::atomic<bool> released_early{false};
  // Those that it calls. Apple does not say that it retains them.
  std::vector<std::shared_ptr<ExecutableLife>> called;
};

// Held by a command from its encoding until it is done or dropped.
class ExecutableUse {
 public:
  ExecutableUse() = default;
  explicit ExecutableUse(std::shared_ptr<ExecutableLife> life) : life_(std::move(life)) {
    count(*life_, 1);
  }
  ExecutableUse(ExecutableUse&&) noexcept = default;
  ExecutableUse& operator=(ExecutableUse&&) = delete;
  ~ExecutableUse() {
    if (life_) {
      count(*life_, -1);
    }
  }

  // Violation if the executable, or one that it calls, is gone.
  void check(const char* method) const;

 private:
  static void count(ExecutableLife& life, int difference);

  std::shared_ptr<ExecutableLife> life_;
};

} // namespace mps_simulator::graph
