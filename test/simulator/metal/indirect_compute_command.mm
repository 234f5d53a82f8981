#import "metal/indirect_compute_command.h"

#include "metal/buffer.h"
#include "metal/dispatch_check.h"
#include "metal/pipeline.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/not_simulated.h"

using namespace mps_simulator;

@implementation SimulatedIndirectComputeCommand

- (instancetype)initWithBuffer:(SimulatedIndirectCommandBuffer*)buffer index:(NSUInteger)index {
  if ((self = [super init])) {
    _buffer = buffer;
    _index = index;
  }
  return self;
}

- (IndirectCommand&)commandFor:(const char*)function {
  checked_indirect_command_buffer(_buffer, function);
  if (settings().validation && _buffer->_inFlight) {
    violation(
        "%s: a committed command buffer that has not completed uses the "
        "commands",
        function);
  }
  return _buffer->_commands[_index];
}

- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipelineState {
  COUNT_CALL();
  auto& command = [self commandFor:__func__];
  auto* pipeline = checked_pipeline(pipelineState, __func__);
  VALIDATE(!_buffer->_inheritPipelineState, "the indirect command buffer inherits the pipeline state");
  VALIDATE(pipeline->_supportsIndirectCommandBuffers,
           "the pipeline of %s was made without supportIndirectCommandBuffers",
           pipeline->_function->name().c_str());
  command.pipeline = pipeline;
}

- (void)setKernelBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  auto& command = [self commandFor:__func__];
  check_buffer_index(index, __func__);
  VALIDATE(!_buffer->_inheritBuffers, "the indirect command buffer inherits buffers");
  VALIDATE(index < _buffer->_bufferCount,
           "index %lu is not below maxKernelBufferBindCount %lu",
           index,
           _buffer->_bufferCount);
  auto* checked = checked_buffer(buffer, __func__);
  if (!checked) {
    VIOLATION("the buffer is nil");
  }
  check_binding_offset(checked, offset, __func__);
  command.buffers[index] = checked;
  command.bindings.buffers[index] = {checked->_pointer + offset, checked->_length - offset};
  command.bindings.buffer_mask |= 1u << index;
}

NOT_SIMULATED(- (void)setKernelBuffer:(id<MTLBuffer>)buffer
                               offset:(NSUInteger)offset
                      attributeStride:(NSUInteger)stride
                              atIndex:(NSUInteger)index)

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  COUNT_CALL();
  auto& command = [self commandFor:__func__];
  check_buffer_index(index, __func__);
  VALIDATE(index < _buffer->_threadgroupMemoryCount,
           "index %lu is not below maxKernelThreadgroupMemoryBindCount %lu",
           index,
           _buffer->_threadgroupMemoryCount);
  check_threadgroup_memory_length(length, __func__);
  command.bindings.threadgroup_lengths[index] = length;
  if (length) {
    command.bindings.threadgroup_mask |= 1u << index;
  } else {
    command.bindings.threadgroup_mask &= ~(1u << index);
  }
}

- (void)dispatch:(IndirectCommand::Grid)kind
            grid:(MTLSize)grid
     threadgroup:(MTLSize)threadgroup
            type:(MTLIndirectCommandType)type
        function:(const char*)function {
  auto& command = [self commandFor:function];
  if (settings().validation) {
    if (!(_buffer->_types & type)) {
      violation(
          "%s: the indirect command buffer was made without this type of "
          "command",
          function);
    }
    if (command.kind != IndirectCommand::Grid::none) {
      violation("%s: command %lu holds a dispatch already: it must be reset first", function, _index);
    }
    if (command.pipeline) {
      check_threadgroup_size(command.pipeline, threadgroup, function);
    }
  }
  command.kind = kind;
  command.grid = grid;
  command.threadgroup = threadgroup;
}

- (void)concurrentDispatchThreadgroups:(MTLSize)threadgroupsPerGrid
                 threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  [self dispatch:IndirectCommand::Grid::threadgroups
             grid:threadgroupsPerGrid
      threadgroup:threadsPerThreadgroup
             type:MTLIndirectCommandTypeConcurrentDispatch
         function:__func__];
}

- (void)concurrentDispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  [self dispatch:IndirectCommand::Grid::threads
             grid:threadsPerGrid
      threadgroup:threadsPerThreadgroup
             type:MTLIndirectCommandTypeConcurrentDispatchThreads
         function:__func__];
}

- (void)setBarrier {
  COUNT_CALL();
  [self commandFor:__func__].barrier = true;
}

- (void)clearBarrier {
  COUNT_CALL();
  [self commandFor:__func__].barrier = false;
}

- (void)reset {
  COUNT_CALL();
  [self commandFor:__func__] = {};
}

NOT_SIMULATED(- (void)setImageblockWidth:(NSUInteger)width height:(NSUInteger)height)
NOT_SIMULATED(- (void)setStageInRegion:(MTLRegion)region)

@end
