// Whether an executable outlives the work that it has encoded. Apple does not say
// that a command buffer keeps it, so whoever releases it earlier has an error.
#pragma once

#include <atomic>
#include <memory>
#include <string>

namespace mps_simulator::graph {

// What an executable and its work on the GPU know of each other.
struct ExecutableLife {
  std::string name; // for messages
  std::atomic<size_t> in_flight{0};
  // While work was in flight.
  std::atomic<bool> released_early{false};
};

// Held by a command from its encoding until it is done or dropped.
class ExecutableUse {
 public:
  ExecutableUse() = default;
  explicit ExecutableUse(std::shared_ptr<ExecutableLife> life) : life_(std::move(life)) {
    ++life_->in_flight;
  }
  ExecutableUse(ExecutableUse&&) noexcept = default;
  ExecutableUse& operator=(ExecutableUse&&) = delete;
  ~ExecutableUse() {
    if (life_) {
      --life_->in_flight;
    }
  }

  // Violation if the executable is gone.
  void check(const char* method) const;

 private:
  std::shared_ptr<ExecutableLife> life_;
};

} // namespace mps_simulator::graph
