#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"
#include "metal/command_buffer.h"
#include "metal/dispatch.h"

#include <set>

// What all encoders share. A command buffer has at most one open encoder: an
// encoder takes that place and frees it when it ends.
@interface SimulatedCommandEncoder : SimulatedObject {
 @public
  SimulatedCommandBuffer* _commandBuffer;
  BOOL _ended;
  // The last call raised an error, so the program may not have reached endEncoding.
  bool _failed;
  NSUInteger _debugGroups;
  mps_simulator::GpuPass* _pass; // the command buffer's
}
- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer;
- (void)endEncoding;
- (void)insertDebugSignpost:(NSString*)string;
- (void)pushDebugGroup:(NSString*)string;
- (void)popDebugGroup;
@end

namespace mps_simulator {

// Around the work of a call: notes an error on the way out.
class EncoderCall {
 public:
  explicit EncoderCall(bool& failed) : failed_(failed) {
    failed_ = true;
  }
  void succeeded() {
    failed_ = false;
  }

 private:
  bool& failed_;
};

} // namespace mps_simulator

// First check of each method that encodes.
#define VALIDATE_ENCODING()                      \
  VALIDATE(!_ended, "the encoder has ended");    \
  const ::mps_simulator::OneThread::Use one_use(_commandBuffer->_oneThread, __func__, "command buffer")

@interface SimulatedBlitCommandEncoder : SimulatedCommandEncoder <MTLBlitCommandEncoder>
@end

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
  std::set<const SimulatedComputePipelineState*> _dispatched;
  // Of a concurrent encoder: the commands after it have no order yet.
  mps_simulator::GpuCommand* _lastOrdered;
}
- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer dispatchType:(MTLDispatchType)dispatchType;
// Drops what is bound: an MPS kernel object has encoded to this encoder, and
// Apple does not say what it leaves bound.
- (void)forgetBindings;
@end
