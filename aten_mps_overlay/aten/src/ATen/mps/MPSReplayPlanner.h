#pragma once

// Lays down the calls of a replay. Objective-C++ only.

#include <ATen/mps/MPSReplayPlan.h>

#include <vector>

namespace at::mps {

/// What makes a replay cheaper than its steps, one after the other. The
/// environment variable PYTORCH_MPS_GRAPH_WITHOUT turns some off, by their
/// names here, for the captures that begin after it was set: to measure them,
/// or to find out whether one is to blame for something. PYTORCH_MPS_GRAPH_WITH
/// turns on what is off.
struct MPSReplayMechanisms {
  // leave out calls that would bind what is bound already
  bool elided_bindings = true;
  // bind neighbouring buffers by one call
  bool buffer_ranges = true;
  // bytes of setBytes: lie in one buffer of the graph
  bool constant_buffer = true;
  // neighbouring copies and fills share an encoder where none touches what
  // another one writes
  bool shared_blits = true;
  // the GPU begins while the rest is encoded
  bool early_commits = true;
  // what the host gives to the device goes through buffers that are used again
  bool staging_ring = true;
  // kernels that may run at the same time wait only for those whose memory they
  // share, and not for all
  bool hazard_tracking = true;
  // kernels may run at the same time. Only on request, by
  // PYTORCH_MPS_GRAPH_WITH
  bool concurrent_kernels = false;
  // runs of kernels become indirect command buffers. Only on request, by
  // PYTORCH_MPS_GRAPH_WITH
  bool indirect_commands = false;

  /// Raises for a name that it does not know.
  static MPSReplayMechanisms fromEnvironment();
};

/// Steps and linked runs must stay where they are as long as the plan lives.
MPSReplayPlan planReplay(
    const std::vector<MPSCommandStep>& steps,
    const std::vector<MPSLinkedRun>& linked,
    const MPSReplayMechanisms& mechanisms,
    id<MTLDevice> device);

} // namespace at::mps
