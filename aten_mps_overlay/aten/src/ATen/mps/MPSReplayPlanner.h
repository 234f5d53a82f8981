#pragma once

// Lays down the calls of a replay. Objective-C++ only.

#include <ATen/mps/MPSReplayPlan.h>

#include <vector>

namespace at::mps {

/// Joins and leaves out calls where that changes nothing. `indirect_commands`
/// makes runs of kernels indirect command buffers where that takes fewer calls.
/// Steps and linked runs must stay where they are as long as the plan lives.
MPSReplayPlan planReplay(
    const std::vector<MPSCommandStep>& steps,
    const std::vector<MPSLinkedRun>& linked,
    bool indirect_commands,
    id<MTLDevice> device);

} // namespace at::mps
