#import "metal/compute_encoder.h"

#include "foundation/object_memory.h"
#include "metal/buffer.h"
#include "metal/pipeline.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

namespace {

shader::Size3 to_size(MTLSize size) {
  return {size.width, size.height, size.depth};
}

void check_index(NSUInteger index, const char* function) {
  // Not subject to the validation setting: it keeps memory in bounds.
  if (__builtin_expect(index >= kBufferSlots, 0)) {
    violation(
        "%s: index %lu is not one of 0 to %zu",
        function,
        index,
        kBufferSlots - 1);
  }
}

} // namespace

@implementation MTLComputePassDescriptor

+ (MTLComputePassDescriptor*)computePassDescriptor {
  COUNT_CALL();
  return [[[MTLComputePassDescriptor alloc] init] autorelease];
}

- (id)copyWithZone:(NSZone*)zone {
  MTLComputePassDescriptor* copy = [[MTLComputePassDescriptor alloc] init];
  copy.dispatchType = _dispatchType;
  return copy;
}

@end

// The rest of the protocol is in compute_encoder_refused.mm.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wprotocol"
@implementation SimulatedComputeCommandEncoder
#pragma clang diagnostic pop

- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer
                         dispatchType:(MTLDispatchType)dispatchType {
  if ((self = [super initWithCommandBuffer:commandBuffer])) {
    _dispatchType = dispatchType;
  }
  return self;
}

- (MTLDispatchType)dispatchType {
  COUNT_CALL();
  return _dispatchType;
}

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

- (void)bind:(SimulatedBuffer*)buffer
      offset:(NSUInteger)offset
     atIndex:(NSUInteger)index
    function:(const char*)function {
  auto& slot = _bindings.buffers[index];
  if (!buffer) {
    _buffers[index] = nil;
    slot = {};
    _bindings.buffer_mask &= ~(1u << index);
    return;
  }
  if (settings().validation && offset >= buffer->_length) {
    violation(
        "%s: offset %lu is beyond the buffer's %lu bytes",
        function,
        offset,
        buffer->_length);
  }
  if (_buffers[index] != buffer) {
    [_commandBuffer retainUntilCompleted:buffer];
    _buffers[index] = buffer;
  }
  slot.pointer = buffer->_pointer + offset;
  slot.length = buffer->_length - offset;
  _bindings.buffer_mask |= 1u << index;
}

- (void)setBuffer:(id<MTLBuffer>)buffer
           offset:(NSUInteger)offset
          atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_index(index, __func__);
  [self bind:checked_buffer(buffer, __func__)
        offset:offset
       atIndex:index
      function:__func__];
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_index(index, __func__);
  if (!_buffers[index]) {
    VIOLATION("no buffer is bound at index %lu", index);
  }
  [self bind:_buffers[index] offset:offset atIndex:index function:__func__];
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers
           offsets:(const NSUInteger[])offsets
         withRange:(NSRange)range {
  COUNT_CALL();
  VALIDATE_ENCODING();
  for (NSUInteger i = 0; i < range.length; ++i) {
    check_index(range.location + i, __func__);
    [self bind:checked_buffer(buffers[i], __func__)
          offset:offsets[i]
         atIndex:range.location + i
        function:__func__];
  }
}

- (void)setBytes:(const void*)bytes
          length:(NSUInteger)length
         atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_index(index, __func__);
  // An empty std::vector, which the backend passes for the shape of a tensor
  // without dimensions. Metal takes it where, as there, no thread reads it.
  static constexpr char kUnread[16] = {};
  if (!bytes && !length) {
    bytes = kUnread;
    length = sizeof(kUnread);
  }
  VALIDATE(bytes, "the bytes are NULL");
  VALIDATE(length > 0, "length is 0");
  VALIDATE(
      length <= kMaximumBytes,
      "length %lu exceeds %zu: use a buffer",
      length,
      kMaximumBytes);
  void* memory = _commandBuffer->_commands.allocate(length);
  std::memcpy(memory, bytes, length);
  _buffers[index] = nil;
  _bindings.buffers[index] = {memory, length};
  _bindings.buffer_mask |= 1u << index;
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length
                           atIndex:(NSUInteger)index {
  COUNT_CALL();
  VALIDATE_ENCODING();
  check_index(index, __func__);
  VALIDATE(
      length % kThreadgroupMemoryAlignment == 0,
      "length %lu is not a multiple of %zu",
      length,
      kThreadgroupMemoryAlignment);
  VALIDATE(
      length <= kMaximumThreadgroupMemory,
      "length %lu exceeds the device's %zu bytes of threadgroup memory",
      length,
      kMaximumThreadgroupMemory);
  _bindings.threadgroup_lengths[index] = length;
  if (length) {
    _bindings.threadgroup_mask |= 1u << index;
  } else {
    _bindings.threadgroup_mask &= ~(1u << index);
  }
}

// MARK: Dispatches

- (void)checkThreadgroup:(MTLSize)threads function:(const char*)function {
  const char* name = _pipeline->_function->name().c_str();
  if (!threads.width || !threads.height || !threads.depth) {
    violation(
        "%s: threadsPerThreadgroup {%lu, %lu, %lu} has a zero",
        function,
        threads.width,
        threads.height,
        threads.depth);
  }
  const NSUInteger limit = _pipeline->_maxTotalThreadsPerThreadgroup;
  const auto product =
      static_cast<unsigned __int128>(threads.width) * threads.height *
      threads.depth;
  if (threads.width > limit || threads.height > limit ||
      threads.depth > limit || product > limit) {
    violation(
        "%s: threadsPerThreadgroup {%lu, %lu, %lu} exceeds the %lu threads that "
        "the pipeline of %s allows",
        function,
        threads.width,
        threads.height,
        threads.depth,
        limit,
        name);
  }
  if (static_cast<NSUInteger>(product) % _pipeline->_threadgroupMultiple) {
    violation(
        "%s: threadsPerThreadgroup {%lu, %lu, %lu} is not a multiple of the "
        "execution width, as the pipeline of %s promises",
        function,
        threads.width,
        threads.height,
        threads.depth,
        name);
  }
}

- (void)checkBindings:(const char*)function {
  const char* name = _pipeline->_function->name().c_str();
  for (const auto& argument : _pipeline->_function->arguments()) {
    const uint32_t bit = 1u << argument.index;
    if (argument.threadgroup) {
      if (!(_bindings.threadgroup_mask & bit)) {
        violation(
            "%s: no threadgroup memory length is set at index %u for argument "
            "%s of %s",
            function,
            argument.index,
            argument.name.c_str(),
            name);
      }
      continue;
    }
    if (!(_bindings.buffer_mask & bit)) {
      violation(
          "%s: no buffer is bound at index %u for argument %s of %s",
          function,
          argument.index,
          argument.name.c_str(),
          name);
    }
    const auto length = _bindings.buffers[argument.index].length;
    if (length < argument.minimum_length) {
      violation(
          "%s: %lu bytes are bound at index %u, but argument %s of %s needs %lu",
          function,
          length,
          argument.index,
          argument.name.c_str(),
          name,
          argument.minimum_length);
    }
    if (_buffers[argument.index] &&
        destroyed_object_class(_buffers[argument.index])) {
      violation(
          "%s: the buffer bound at index %u for argument %s of %s has been "
          "released",
          function,
          argument.index,
          argument.name.c_str(),
          name);
    }
  }
  NSUInteger memory = _pipeline->_staticThreadgroupMemoryLength;
  for (unsigned i = 0; i < slots_up_to(_bindings.threadgroup_mask); ++i) {
    memory += _bindings.threadgroup_lengths[i];
  }
  if (memory > kMaximumThreadgroupMemory) {
    violation(
        "%s: %s uses %lu bytes of threadgroup memory and the device has %zu",
        function,
        name,
        memory,
        kMaximumThreadgroupMemory);
  }
}

- (void)checkDispatch:(MTLSize)threadsPerThreadgroup
             function:(const char*)function {
  if (!_pipeline) {
    violation("%s: no compute pipeline state is set", function);
  }
  if (settings().validation) {
    [self checkThreadgroup:threadsPerThreadgroup function:function];
    [self checkBindings:function];
  }
}

- (void)appendGrid:(shader::Size3)grid threadgroup:(MTLSize)threadgroup {
  auto& commands = _commandBuffer->_commands;
  void* snapshot = commands.allocate(snapshot_size(_bindings));
  commands.append<DispatchCommand>(
      _pipeline->_function.get(),
      _bindings,
      snapshot,
      grid,
      to_size(threadgroup));
}

- (void)dispatchThreads:(MTLSize)threadsPerGrid
    threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  if (!threadsPerGrid.width || !threadsPerGrid.height || !threadsPerGrid.depth) {
    // No thread, which needs no bindings: the backend's im2col of an empty batch.
    return;
  }
  [self checkDispatch:threadsPerThreadgroup function:__func__];
  [self appendGrid:to_size(threadsPerGrid) threadgroup:threadsPerThreadgroup];
}

- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid
       threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup {
  COUNT_CALL();
  VALIDATE_ENCODING();
  [self checkDispatch:threadsPerThreadgroup function:__func__];
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
  VALIDATE(
      offset <= buffer->_length && kSize <= buffer->_length - offset,
      "offset %lu + size %lu is beyond the buffer's %lu bytes",
      offset,
      kSize,
      buffer->_length);
  [self checkDispatch:threadsPerThreadgroup function:__func__];
  [_commandBuffer retainUntilCompleted:buffer];
  auto& commands = _commandBuffer->_commands;
  void* snapshot = commands.allocate(snapshot_size(_bindings));
  commands.append<IndirectDispatchCommand>(
      _pipeline->_function.get(),
      _bindings,
      snapshot,
      buffer->_pointer + offset,
      to_size(threadsPerThreadgroup));
}

// MARK: Resources and order

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(resource, "the resource is nil");
  VALIDATE(usage, "the usage is empty");
  VALIDATE(
      !destroyed_object_class(resource), "the resource has been released");
  [_commandBuffer retainUntilCompleted:resource];
}

- (void)useResources:(const id<MTLResource>[])resources
               count:(NSUInteger)count
               usage:(MTLResourceUsage)usage {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(usage, "the usage is empty");
  for (NSUInteger i = 0; i < count; ++i) {
    VALIDATE(resources[i], "resource %lu is nil", i);
    VALIDATE(
        !destroyed_object_class(resources[i]),
        "resource %lu has been released",
        i);
    [_commandBuffer retainUntilCompleted:resources[i]];
  }
}

- (void)useHeap:(id<MTLHeap>)heap {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(heap, "the heap is nil");
  VALIDATE(!destroyed_object_class(heap), "the heap has been released");
  [_commandBuffer retainUntilCompleted:heap];
}

- (void)useHeaps:(const id<MTLHeap>[])heaps count:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE_ENCODING();
  for (NSUInteger i = 0; i < count; ++i) {
    VALIDATE(heaps[i], "heap %lu is nil", i);
    VALIDATE(
        !destroyed_object_class(heaps[i]), "heap %lu has been released", i);
    [_commandBuffer retainUntilCompleted:heaps[i]];
  }
}

// Commands run one after the other even in a concurrent encoder, so barriers
// hold by themselves.
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  COUNT_CALL();
  VALIDATE_ENCODING();
  VALIDATE(scope, "the scope is empty");
  VALIDATE(
      !(scope & MTLBarrierScopeRenderTargets),
      "a compute encoder has no render targets");
}

- (void)memoryBarrierWithResources:(const id<MTLResource>[])resources
                             count:(NSUInteger)count {
  COUNT_CALL();
  VALIDATE_ENCODING();
  for (NSUInteger i = 0; i < count; ++i) {
    VALIDATE(resources[i], "resource %lu is nil", i);
  }
}

@end
