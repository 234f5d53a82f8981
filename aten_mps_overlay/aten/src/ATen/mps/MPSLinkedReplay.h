#pragma once

// Graph runs that a replay makes as one. Objective-C++ only.

#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSCommandStep.h>

#include <optional>
#include <vector>

namespace at::mps {

/// A graph run that stands for several, which were neighbours.
struct MPSLinkedRun {
  struct Part {
    const MPSCommandStep* step = nullptr;
    std::vector<bool> written; // by result, whether it goes to its memory
  };
  std::vector<Part> parts;
  MPSCommandStep step; // an MPSGraphRunStep
};

/// Finds and compiles the stretches of graph runs, with at most `limit` runs in
/// each; nothing if the system can't do that. `pool` is that of the graph.
std::optional<std::vector<MPSLinkedRun>> linkRuns(
    const MPSStepOrder& steps,
    id<MTLDevice> device,
    MPSGraphCompilationDescriptor* descriptor,
    MPSGraphPool pool,
    size_t limit);

} // namespace at::mps
