#pragma once

#import "metal/indirect_command_buffer.h"
#include "metal/residency.h"

namespace mps_simulator {

// What the commands of an indirect command buffer take from the encoder that
// executes them.
struct IndirectContext {
  SimulatedComputePipelineState* pipeline = nullptr;
  ComputeBindings bindings;
  Residency residency;
  SimulatedBuffer* buffers[kBufferSlots] = {};
};

// Commands between two barriers may run at the same time: none of them may
// touch what another one writes. Raises a violation for a command that could
// not run or that conflicts with another one.
void check_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                             NSRange range,
                             const IndirectContext& context,
                             const char* function);

// What the commands of the range touch, of those that could run.
void collect_indirect_accesses(const SimulatedIndirectCommandBuffer* commands,
                               NSRange range,
                               const IndirectContext& context,
                               std::vector<GpuAccess>& accesses);

// By the GPU: the same checks, and the commands, those between two barriers in
// an order that depends on the seed.
void run_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                           NSRange range,
                           const IndirectContext& context,
                           const char* function);

} // namespace mps_simulator
