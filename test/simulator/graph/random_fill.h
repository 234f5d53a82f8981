// Distributions over the Philox stream.
#pragma once

#include "graph/philox.h"

#include <ATen/Tensor.h>

namespace mps_simulator::graph {

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
