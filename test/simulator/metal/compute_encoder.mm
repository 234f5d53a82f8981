#import "metal/command_encoder.h"

#include "foundation/object_memory.h"
#include "metal/buffer.h"
#include "metal/dispatch.h"
#include "metal/gpu_order.h"
#include "metal/indirect_command_buffer.h"
#include "metal/library.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/random.h"

#include <cstring>
#include <memory>
#include <vector>

using namespace mps_simulator;

namespace {

shader::Size3 to_size(MTLSize size) {
  return {size.width, size.height, size.depth};
}

class BarrierCommand final : public GpuCommand {
 public:
  // `buffers` is memory of the command's list; null: all of them.
  BarrierCommand(const SimulatedBuffer* const* buffers, size_t count) : buffers_(buffers), count_(count) {}
  void run() override {
    GpuOrder::instance().barrier(buffers_, count_);
  }

 private:
  const SimulatedBuffer* const* buffers_;
  size_t count_;
};

constexpr NSUInteger kMostCommands = 16384;

class ExecuteCommand final : public GpuCommand {
 public:
  ExecuteCommand(const SimulatedIndirectCommandBuffer* commands,
                 NSRange range,
                 std::shared_ptr<const IndirectContext> context,
                 const char* function)
      : commands_(commands), range_(range), context_(std::move(context)), function_(function) {}

  void run() override {
    run_indirect_commands(commands_, range_, *context_, function_);
  }

  void collect_accesses(std::vector<GpuAccess>& accesses, bool) const override {
    collect_indirect_accesses(commands_, range_, *context_, accesses);
  }

  std::string describe() const override {
    return "command " + std::to_string(place) + " (of an indirect command buffer)";
  }

 private:
  const SimulatedIndirectCommandBuffer* commands_;
  NSRange range_;
  std::shared_ptr<const IndirectContext> context_;
  const char* function_;
};

} // namespace

@implementation SimulatedComputeCommandEncoder

- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer
                         dispatchType:(MTLDispatchType)dispatchType {
  if ((self = [super initWithCommandBuffer:commandBuffer])) {
    _dispatchType = dispatchType;
    _pass->concurrent = dispatchType == MTLDispatchTypeConcurrent;
    _lastOrdered = _commandBuffer->_commands.last();
  }
  return self;
}

// Metal promises no order since the last barrier.
- (void)shuffleCommands {
  if (!_pass->concurrent) {
    return;
  }
  static SeededSequence order;
  auto& commands = _commandBuffer->_commands;
  commands.shuffle_behind(_lastOrdered, [] { return order.next(); });
}

- (void)appendBarrier:(SimulatedBuffer* const*)buffers count:(NSUInteger)count {
  if (!_pass->concurrent) {
    return;
  }
  [self shuffleCommands];
  auto& commands = _commandBuffer->_commands;
  const SimulatedBuffer** kept = nullptr;
  if (buffers) {
    const auto size = count * sizeof(SimulatedBuffer*);
    kept = static_cast<const SimulatedBuffer**>(commands.allocate(size));
    std::memcpy(kept, buffers, size);
  }
  commands.append<BarrierCommand>(kept, count);
  --_pass->commands; // a barrier is not counted in messages
  _lastOrdered = commands.last();
}

- (void)endEncoding {
  if (!_ended) {
    [self shuffleCommands];
  }
  [super endEncoding];
}

COUNTED_GETTER(MTLDispatchType, dispatchType, _dispatchType)

// MARK: Bindings

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  COUNT_CALL();
  VALIDATE_ENCODING();
  auto* pipeline = checked_pipeline(state, __func__);
  if (pipeline != _pipeline) {
    [_commandBuffer retainUntilCompleted:pipeline];
    _pipeline = pipeline;
  }
}

- (void)forgetBindings {
  _pipeline = nil;
  std::fill(std::begin(_buffers), std::end(_buffers), nil);
  _bindings = {};
}

- (void)bind:(SimulatedBuffer*)buffer
      offset:(NSUInteger)offset
     atIndex:(NSUInteger)index
    function:(const char*)function {
  auto& slot = _bindings.buffers[index];
  if (!buffer) {
    _buffers[index] = nil;
    slot = {};
    _bindings.buffer_mask &= ~(1u << index);
    _bindings.bytes_mask &= ~(1u << index);
    return;
  }
  check_binding_offset(buffer, offset, function);
  if (_buffers[index] != buffer) {
    [_commandBuffer retainUntilCompleted:buffer];
    _buffers[index] = buffer;
  }
  slot.pointer = buffer->_pointer + offset;
  slot.length = buffer->_length - offset;
  _bindings.buffer_mask |= 1u << index;
  _bindings.bytes_mask &= ~(1u << index);
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_buffer_index(index, __func__);
  [self bind:checked_buffer(buffer, __func__) offset:offset atIndex:index function:__func__];
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_buffer_index(index, __func__);
  if (!_buffers[index]) {
    VIOLATION("no buffer is bound at index %lu", index);
  }
  [self bind:_buffers[index] offset:offset atIndex:index function:__func__];
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
  COUNT_CALL();
  VALIDATE_ENCODING();
  for (NSUInteger i = 0; i < range.length; ++i) {
    check_buffer_index(range.location + i, __func__);
    [self bind:checked_buffer(buffers[i], __func__) offset:offsets[i] atIndex:range.location + i function:__func__];
  }
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_buffer_index(index, __func__);
  // An empty std::vector, which the backend passes for the shape of a tensor
  // without dimensions. Metal takes it where, as there, no thread reads it.
  static constexpr char kUnread[16] = {};
  if (!bytes && !length) {
    bytes = kUnread;
    length = sizeof(kUnread);
  }
  VALIDATE(bytes, "the bytes are NULL");
  VALIDATE(length > 0, "length is 0");
  VALIDATE(length <= kMaximumBytes, "length %lu exceeds %zu: use a buffer", length, kMaximumBytes);
  void* memory = _commandBuffer->_commands.allocate(length);
  std::memcpy(memory, bytes, length);
  _buffers[index] = nil;
  _bindings.buffers[index] = {memory, length};
  _bindings.buffer_mask |= 1u << index;
  _bindings.bytes_mask |= 1u << index;
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_buffer_index(index, __func__);
  check_threadgroup_memory_length(length, __func__);
  _bindings.set_threadgroup_length(index, length);
}

// MARK: Dispatches

- (void)checkDispatch:(MTLSize)threadsPerThreadgroup function:(const char*)function {
  if (!_pipeline) {
    violation("%s: no compute pipeline state is set", function);
  }
  if (settings().validation) {
    check_threadgroup_size(_pipeline, threadsPerThreadgroup, function);
    check_bindings(_pipeline, _bindings, _buffers, function);
    _dispatched.insert(_pipeline);
  }
}

- (void)logAccesses {
  if (__builtin_expect(!settings().hazards, 1)) {
    return;
  }
  each_access(*_pipeline->_function,
              _bindings.buffers,
              _buffers,
              kBufferSlots,
              [&](const GpuAccess& access, const shader::Argument& argument) {
                auto* buffer = _buffers[argument.index];
                _commandBuffer->_accesses.add(buffer,
                                              static_cast<size_t>(access.begin - buffer->_pointer),
                                              static_cast<size_t>(access.end - buffer->_pointer),
                                              access.writes);
              });
}

- (void)appendGrid:(shader::Size3)grid threadgroup:(MTLSize)threadgroup {
  [self logAccesses];
  auto& commands = _commandBuffer->_commands;
  void* snapshot = commands.allocate(snapshot_size(_bindings));
  commands.append<DispatchCommand>(
      _pipeline->_function.get(), _bindings, _pass->residency, _buffers, snapshot, grid, to_size(threadgroup));
}

- (void)dispatchThreads:(MTLSize)threadsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  if (!threadsPerGrid.width || !threadsPerGrid.height || !threadsPerGrid.depth) {
    // No thread, which needs no bindings: the backend's im2col of an empty batch.
    return;
  }
  [self checkDispatch:threadsPerThreadgroup function:__func__];
  [self appendGrid:to_size(threadsPerGrid) threadgroup:threadsPerThreadgroup];
}

- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  [self checkDispatch:threadsPerThreadgroup function:__func__];
  if (!threadgroupsPerGrid.width || !threadgroupsPerGrid.height || !threadgroupsPerGrid.depth) {
    // No thread, which reads and writes nothing.
    return;
  }
  [self appendGrid:{threadgroupsPerGrid.width * threadsPerThreadgroup.width,
                    threadgroupsPerGrid.height * threadsPerThreadgroup.height,
                    threadgroupsPerGrid.depth * threadsPerThreadgroup.depth}
       threadgroup:threadsPerThreadgroup];
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)indirectBuffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  auto* buffer = checked_buffer(indirectBuffer, __func__);
  VALIDATE(buffer, "the indirect buffer is nil");
  VALIDATE(offset % 4 == 0, "offset %lu is not a multiple of 4", offset);
  constexpr NSUInteger kSize = sizeof(MTLDispatchThreadgroupsIndirectArguments);
  VALIDATE(offset <= buffer->_length && kSize <= buffer->_length - offset,
           "offset %lu + size %lu is beyond the buffer's %lu bytes",
           offset,
           kSize,
           buffer->_length);
  [self checkDispatch:threadsPerThreadgroup function:__func__];
  [_commandBuffer retainUntilCompleted:buffer];
  [self logAccesses];
  _commandBuffer->_accesses.add(buffer, offset, offset + kSize, false);
  auto& commands = _commandBuffer->_commands;
  void* snapshot = commands.allocate(snapshot_size(_bindings));
  commands.append<IndirectDispatchCommand>(_pipeline->_function.get(),
                                           _bindings,
                                           _pass->residency,
                                           _buffers,
                                           snapshot,
                                           buffer,
                                           buffer->_pointer + offset,
                                           to_size(threadsPerThreadgroup));
}

// MARK: Resources and order

- (void)use:(id)resource writes:(BOOL)writes {
  [_commandBuffer retainUntilCompleted:resource];
  _pass->residency.declare(resource, writes, _commandBuffer->_commands);
}

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(resource, "the resource is nil");
  VALIDATE(usage, "the usage is empty");
  VALIDATE(!destroyed_object_class(resource), "the resource has been released");
  [self use:resource writes:(usage & MTLResourceUsageWrite) != 0];
}

- (void)useResources:(const id<MTLResource>[])resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(usage, "the usage is empty");
  for (NSUInteger i = 0; i < count; ++i) {
    VALIDATE(resources[i], "resource %lu is nil", i);
    VALIDATE(!destroyed_object_class(resources[i]), "resource %lu has been released", i);
    [self use:resources[i] writes:(usage & MTLResourceUsageWrite) != 0];
  }
}

// For reading only, whatever was declared of its buffers before.
- (void)useHeap:(id<MTLHeap>)heap {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(heap, "the heap is nil");
  VALIDATE(!destroyed_object_class(heap), "the heap has been released");
  [self use:heap writes:NO];
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(scope, "the scope is empty");
  VALIDATE(!(scope & MTLBarrierScopeRenderTargets), "a compute encoder has no render targets");
  if (scope & MTLBarrierScopeBuffers) {
    [self appendBarrier:nullptr count:0];
  }
}

- (void)memoryBarrierWithResources:(const id<MTLResource>[])resources count:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE_ENCODING();
  for (NSUInteger i = 0; i < count; ++i) {
    VALIDATE(resources[i], "resource %lu is nil", i);
  }
  std::vector<SimulatedBuffer*> buffers;
  for (NSUInteger i = 0; i < count; ++i) {
    buffers.push_back(checked_buffer((id<MTLBuffer>)resources[i], __func__));
  }
  [self appendBarrier:buffers.data() count:count];
}

- (SimulatedIndirectCommandBuffer*)checkedCommands:(id<MTLIndirectCommandBuffer>)commands
                                          function:(const char*)function {
  auto* checked = checked_indirect_command_buffer(commands, function);
  if (!settings().validation) {
    return checked;
  }
  constexpr auto kComputeTypes =
      MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  if (checked->_types & ~kComputeTypes || !checked->_types) {
    violation("%s: the indirect command buffer is not one of compute commands", function);
  }
  if (checked->_inheritPipelineState) {
    if (!_pipeline) {
      violation("%s: no compute pipeline state is set, which the commands inherit", function);
    }
    if (!_pipeline->_supportsIndirectCommandBuffers) {
      violation(
          "%s: the pipeline of %s, which the commands inherit, was made without "
          "supportIndirectCommandBuffers",
          function,
          _pipeline->_function->name().c_str());
    }
  }
  return checked;
}

- (std::shared_ptr<const IndirectContext>)indirectContext {
  auto context = std::make_shared<IndirectContext>();
  context->pipeline = _pipeline;
  context->bindings = _bindings;
  context->residency = _pass->residency;
  std::memcpy(context->buffers, _buffers, sizeof(_buffers));
  if (settings().gpu_family < 9) {
    context->dispatched = _dispatched;
  }
  context->residency.log(_commandBuffer->_accesses);
  return context;
}

- (void)executeCommandsInBuffer:(id<MTLIndirectCommandBuffer>)indirectCommandBuffer withRange:(NSRange)executionRange {
  COUNT_CALL();
  VALIDATE_ENCODING();
  auto* commands = [self checkedCommands:indirectCommandBuffer function:__func__];
  [commands checkRange:executionRange function:__func__];
  VALIDATE(
      executionRange.length <= kMostCommands, "%lu commands are more than %lu", executionRange.length, kMostCommands);
  auto context = [self indirectContext];
  // The GPU checks again, but an error raised here has the caller's stack.
  if (settings().validation) {
    check_indirect_commands(commands, executionRange, *context, __func__);
  }
  [_commandBuffer useIndirectCommandBuffer:commands];
  _commandBuffer->_commands.append<ExecuteCommand>(commands, executionRange, std::move(context), __func__);
}

NOT_SIMULATED(-(void)setTexture : (id<MTLTexture>)texture atIndex : (NSUInteger)index)

@end
