// Results that lie in the memory of what is fed.
#pragma once

#include "graph/plan.h"
#include "graph/tensor_data.h"

namespace mps_simulator::graph {

// Violation if a result shares some bytes with a feed that the plan reads, but does not have the same place: its
// kernels may write an element before others have read it. In a plan with calls, also if the result may be written
// before another step has read the feed, or before or after another result in the same place. `method` is the API
// call that errors name.
void check_overlap(
    const char* method,
    const Plan& plan,
    const std::vector<MPSGraphTensorData*>& feeds,
    const std::vector<MPSGraphTensorData*>& results);

} // namespace mps_simulator::graph
