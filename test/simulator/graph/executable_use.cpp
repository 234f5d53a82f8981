#include "graph/executable_use.h"

#include "support/error.h"

namespace mps_simulator::graph {

namespace {

void check_life(const char* method, const ExecutableLife& life) {
  if (life.released_early) {
    violation("%s: %s was released before the GPU had run what it encoded", method, life.name.c_str());
  }
  for (const auto& called : life.called) {
    check_life(method, *called);
  }
}

} // namespace

void ExecutableUse::count(ExecutableLife& life, int difference) {
  life.in_flight += difference;
  for (const auto& called : life.called) {
    count(*called, difference);
  }
}

void ExecutableUse::check(const char* method) const {
  if (life_ && settings().validation) {
    check_life(method, *life_);
  }
}

} // namespace mps_simulator::graph
