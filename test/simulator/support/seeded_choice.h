#pragma once

#include "support/random.h"

#include <atomic>

namespace mps_simulator {

// A choice that Apple leaves open and that nearly always has the same result.
// With seed 0 it always does, so that a run without a seed is predictable; with
// seed 1 it never does, so that a program can ask for the unusual result; with
// other seeds it is the unusual one once in so many times.
class SeededChoice {
 public:
  explicit constexpr SeededChoice(uint64_t one_in) : one_in_(one_in) {}

  bool otherwise() {
    const uint64_t seed = settings().seed;
    return seed > 1 ? next() % one_in_ == 0 : seed == 1;
  }

 private:
  uint64_t next() {
    return mix_seed(settings().seed, count_.fetch_add(1, std::memory_order_relaxed));
  }

  const uint64_t one_in_;
  std::atomic<uint64_t> count_{0};
};

} // namespace mps_simulator
