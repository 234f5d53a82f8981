#pragma once

#import "metal/command_encoder.h"
#include "metal/dispatch.h"

@class SimulatedBuffer;
@class SimulatedComputePipelineState;

@interface SimulatedComputeCommandEncoder : SimulatedCommandEncoder <MTLComputeCommandEncoder> {
 @private
  MTLDispatchType _dispatchType;
  // All that is bound stays until it is replaced, and every dispatch takes a
  // snapshot. The command buffer keeps the objects alive.
  SimulatedComputePipelineState* _pipeline;
  mps_simulator::ComputeBindings _bindings;
  SimulatedBuffer* _buffers[mps_simulator::kBufferSlots];
  // Of a concurrent encoder: the commands after it have no order yet.
  mps_simulator::GpuCommand* _lastOrdered;
}
- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer dispatchType:(MTLDispatchType)dispatchType;
// Drops what is bound: an MPS kernel object has encoded to this encoder, and
// Apple does not say what it leaves bound.
- (void)forgetBindings;
@end

// Executes indirect command buffers.
@interface SimulatedComputeCommandEncoder (Indirect)
@end

// What the simulated device cannot do, in a file of its own.
@interface SimulatedComputeCommandEncoder (Refused)
@end
