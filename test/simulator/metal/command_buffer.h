#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"
#include "metal/access_log.h"
#include "metal/command.h"
#include "metal/command_list.h"
#include "metal/gpu.h"
#include "metal/gpu_order.h"
#include "support/one_thread.h"

#include <atomic>
#include <exception>
#include <memory>
#include <vector>

@class SimulatedCommandEncoder;
@class SimulatedCommandQueue;
@class SimulatedIndirectCommandBuffer;

@interface SimulatedCommandBuffer : SimulatedObject <MTLCommandBuffer> {
 @public
  mps_simulator::CommandList _commands;
  mps_simulator::AccessLog _accesses;
  mps_simulator::CommandBufferOrder _order;
  // It and its encoders.
  mps_simulator::OneThread _oneThread;
  // The encoder that has not ended. Not retained.
  SimulatedCommandEncoder* _openEncoder;
  // It was released without having ended.
  bool _lostEncoder;
  bool _committed;
  bool _nullMode;
  // By the thread that commits it, so that the GPU's leaves it alone.
  bool _finishedAtCommit;
  // Where the GPU is in the commands. From commit on only the GPU changes it.
  mps_simulator::GpuCommand* _position;
 @private
  SimulatedCommandQueue* _queue;
  std::shared_ptr<mps_simulator::QueueState> _state;
  std::atomic<MTLCommandBufferStatus> _status;
  bool _handlersDone;
  bool _reported;
  NSUInteger _debugGroups;
  std::vector<id> _retained;
  std::vector<SimulatedIndirectCommandBuffer*> _indirectCommandBuffers;
  std::vector<MTLCommandBufferHandler> _scheduledHandlers;
  std::vector<MTLCommandBufferHandler> _completedHandlers;
  std::exception_ptr _exception;
  double _kernelStartTime;
  double _kernelEndTime;
  double _gpuStartTime;
  double _gpuEndTime;
}

- (instancetype)initWithQueue:(SimulatedCommandQueue*)queue
                        state:(std::shared_ptr<mps_simulator::QueueState>)state;

// Raises a violation when nothing may be appended now; `function` is the API
// call that errors name.
- (void)checkOpenForEncoding:(const char*)function;
- (void)retainUntilCompleted:(id)object;
// The host must not change the commands between commit and completion.
- (void)useIndirectCommandBuffer:(SimulatedIndirectCommandBuffer*)commands;

// By the GPU: the first with its lock held, the second without.
- (void)markScheduled;
- (void)finishWithException:(std::exception_ptr)exception;
@end

namespace mps_simulator {

// The simulator's object behind a command buffer or a wrapper of one.
SimulatedCommandBuffer* root_command_buffer(id<MTLCommandBuffer> command_buffer, const char* function);

} // namespace mps_simulator
