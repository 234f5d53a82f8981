// What is behind MPSGraphExecutable, and whether one outlives the work that it has encoded.
#pragma once

#include "graph/plan.h"
#include "support/one_thread.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace mps_simulator::graph {

// The state that an executable and its work on the GPU share.
struct ExecutableLife {
  std::string name; // for messages
  std::atomic<size_t> in_flight{0};
  // Apple does not say that several may encode it.
  OneThread one_thread;
  // While work was in flight.
  std::atomic<bool> released_early{false};
};

// Held by a command from its encoding until it is done or dropped.
class ExecutableUse {
 public:
  ExecutableUse() = default;
  explicit ExecutableUse(std::shared_ptr<ExecutableLife> life) : life_(std::move(life)) {
    life_->in_flight++;
  }
  ExecutableUse(ExecutableUse&&) noexcept = default;
  ExecutableUse& operator=(ExecutableUse&&) = delete;
  ~ExecutableUse() {
    if (life_) {
      life_->in_flight--;
    }
  }

  // Violation if the executable is gone.
  void check(const char* method) const;

 private:
  std::shared_ptr<ExecutableLife> life_;
};

// What specializing or compiling gives; commands share it with the executable.
struct Compiled {
  std::shared_ptr<const Plan> plan;
  std::vector<TensorType> feed_types;
  std::vector<TensorType> target_types;
};

} // namespace mps_simulator::graph

@interface MPSGraphExecutable () {
 @public
  MPSGraph* _graph; // retained: it owns the tensors
  std::vector<MPSGraphTensor*> _feeds;
  std::vector<MPSGraphTensor*> _targets;
  mps_simulator::graph::Compiled _compiled;
  std::shared_ptr<mps_simulator::graph::ExecutableLife> _life;
}
@end
