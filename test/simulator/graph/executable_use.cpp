#include "graph/executable_use.h"

#include "support/error.h"

namespace mps_simulator::graph {

void ExecutableUse::check(const char* method) const {
  if (life_ && settings().validation && life_->released_early) {
    violation("%s: %s was released before the GPU had run what it encoded", method, life_->name.c_str());
  }
}

} // namespace mps_simulator::graph
