#pragma once

#include "support/settings.h"

#include <atomic>
#include <cstdint>
#include <random>

namespace mps_simulator {

// Numbers that depend on MPS_SIMULATOR_SEED alone. Starts again when the seed is
// set again to another value. Not thread-safe.
class SeededGenerator {
 public:
  std::mt19937_64& get() {
    const uint64_t seed = settings().seed;
    if (!started_ || seed != seed_) {
      generator_.seed(seed);
      seed_ = seed;
      started_ = true;
    }
    return generator_;
  }

 private:
  std::mt19937_64 generator_;
  uint64_t seed_ = 0;
  bool started_ = false;
};

// A number for each count of a seed's sequence.
inline uint64_t mix_seed(uint64_t seed, uint64_t count) {
  uint64_t number = seed * 0x9E3779B97F4A7C15ull + count + 0x632BE59BD9B4E019ull;
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ull;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBull;
  return number ^ (number >> 31);
}

// The same for any thread: the numbers that one thread gets depend on the others' calls.
class SeededSequence {
 public:
  uint64_t next() {
    return mix_seed(settings().seed, count_.fetch_add(1, std::memory_order_relaxed));
  }

 private:
  std::atomic<uint64_t> count_{0};
};

// A choice that Apple leaves open and that nearly always has the same result.
// With seed 0 it always does, so that a run without a seed is predictable; with
// seed 1 it never does, so that a program can ask for the unusual result; with
// other seeds it is the unusual one once in so many times.
class SeededChoice {
 public:
  explicit constexpr SeededChoice(uint64_t one_in) : one_in_(one_in) {}

  bool otherwise() {
    const uint64_t seed = settings().seed;
    return seed > 1 ? numbers_.next() % one_in_ == 0 : seed == 1;
  }

 private:
  const uint64_t one_in_;
  SeededSequence numbers_;
};

} // namespace mps_simulator
