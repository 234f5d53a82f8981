#pragma once

#include "metal/residency.h"

#include <cstdint>

@class SimulatedFence;

namespace mps_simulator {

struct FenceUse {
  SimulatedFence* fence;
  const FenceUse* next;
};

// Commands that the GPU starts and ends together: those of an encoder, or a run
// of a graph or of a kernel object. In the memory of the commands' list.
struct GpuPass {
  // Whether its commands may run at the same time.
  bool concurrent = false;
  unsigned commands = 0;
  // Declared by the encoder so far.
  Residency residency;
  // At its beginning and at its end, wherever in the encoder they were asked for.
  const FenceUse* waits = nullptr;
  const FenceUse* updates = nullptr;
  // Given by the GPU when it starts; 0 where its order is of no interest.
  uint64_t id = 0;
  bool started = false;
};

} // namespace mps_simulator
