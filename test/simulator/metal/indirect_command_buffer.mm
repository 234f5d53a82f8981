#import "metal/indirect_command_buffer.h"

#include "foundation/copying.h"
#include "metal/buffer.h"
#include "metal/dispatch.h"
#include "metal/library.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

@implementation MTLIndirectCommandBufferDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _inheritPipelineState = YES;
    _inheritBuffers = YES;
    _maxKernelThreadgroupMemoryBindCount = kBufferSlots;
  }
  return self;
}

COPIES_PROPERTIES

@end

@implementation SimulatedIndirectCommandBuffer

- (instancetype)initWithDescriptor:(MTLIndirectCommandBufferDescriptor*)descriptor
                             count:(NSUInteger)count
                           options:(MTLResourceOptions)options {
  if ((self = [super initWithOptions:options])) {
    _types = descriptor.commandTypes;
    _inheritPipelineState = descriptor.inheritPipelineState;
    _inheritBuffers = descriptor.inheritBuffers;
    _bufferCount = descriptor.maxKernelBufferBindCount;
    _threadgroupMemoryCount = descriptor.maxKernelThreadgroupMemoryBindCount;
    _commands.resize(count);
  }
  return self;
}

COUNTED_GETTER(NSUInteger, size, _commands.size())
GETTER(id<MTLHeap>, heap, nil)
GETTER(NSUInteger, heapOffset, 0)

- (void)checkRange:(NSRange)range function:(const char*)function {
  // Not subject to the validation setting: it keeps memory in bounds.
  if (range.location > _commands.size() || range.length > _commands.size() - range.location) {
    violation(
        "%s: range {%lu, %lu} is not inside the indirect command buffer's %zu "
        "commands",
        function,
        range.location,
        range.length,
        _commands.size());
  }
}

- (id<MTLIndirectComputeCommand>)indirectComputeCommandAtIndex:(NSUInteger)commandIndex {
  COUNT_CALL();
  [self checkRange:NSMakeRange(commandIndex, 1) function:__func__];
  VALIDATE(self.storageMode != MTLStorageModePrivate, "the CPU cannot encode into private storage");
  return [[[SimulatedIndirectComputeCommand alloc] initWithBuffer:self index:commandIndex] autorelease];
}

@end

namespace mps_simulator {

SimulatedIndirectCommandBuffer* checked_indirect_command_buffer(id<MTLIndirectCommandBuffer> buffer,
                                                                const char* function) {
  static const Class buffer_class = [SimulatedIndirectCommandBuffer class];
  return (SimulatedIndirectCommandBuffer*)checked_object(buffer, buffer_class, "indirect command buffer", function);
}

} // namespace mps_simulator

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

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  COUNT_CALL();
  auto& command = [self commandFor:__func__];
  check_buffer_index(index, __func__);
  VALIDATE(index < _buffer->_threadgroupMemoryCount,
           "index %lu is not below maxKernelThreadgroupMemoryBindCount %lu",
           index,
           _buffer->_threadgroupMemoryCount);
  check_threadgroup_memory_length(length, __func__);
  command.bindings.set_threadgroup_length(index, length);
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

- (void)reset {
  COUNT_CALL();
  [self commandFor:__func__] = {};
}

@end
