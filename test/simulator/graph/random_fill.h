// Philox4x32-10: random numbers by counter (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011).
//
// The state that MPSGraph's random operations take has seven 32-bit words:
// [0] a version, [1…4] the counter, lowest word first, [5, 6] the key. Block n of
// an operation is the output for the counter plus n; element i of the result
// takes word i % 4 of block i / 4, a 64-bit element takes words 2i and 2i + 1,
// lower one first. This is the simulator's own stream: Apple does not document
// its own, so the numbers are not expected to be equal.
#pragma once

#include <ATen/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace mps_simulator::graph {

struct PhiloxState {
  static constexpr int64_t words = 7;

  uint32_t version;
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;

  static PhiloxState read(const int32_t* words);
  void write(int32_t* words) const;
  void advance(uint64_t blocks);
};

class Philox {
 public:
  explicit Philox(const PhiloxState& state) : state_(state) {}

  std::array<uint32_t, 4> block(uint64_t number) const;

  // Word and pair of words at a position of the stream.
  uint32_t word(uint64_t position) const {
    return block(position / 4)[position % 4];
  }
  uint64_t pair(uint64_t position) const {
    const auto words = block(position / 2);
    const std::size_t first = position % 2 * 2;
    return words[first] | static_cast<uint64_t>(words[first + 1]) << 32;
  }

 private:
  PhiloxState state_;
};

// Distributions over the Philox stream.
enum class Distribution { uniform, normal, truncated_normal };

struct RandomParameters {
  Distribution distribution;
  at::ScalarType type;
  double minimum; // uniform reals: from here…
  double maximum; // …to below here; truncated: both ends
  int64_t minimum_integer; // both ends are possible
  int64_t maximum_integer;
  double mean;
  double standard_deviation;
};

struct RandomResult {
  at::Tensor values;
  PhiloxState state; // after the blocks that were used
};

RandomResult random_tensor(const RandomParameters& parameters, at::IntArrayRef sizes, PhiloxState state);

} // namespace mps_simulator::graph
