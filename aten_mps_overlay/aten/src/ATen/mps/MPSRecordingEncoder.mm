#include <ATen/mps/MPSRecordingEncoder.h>
#include <c10/util/irange.h>

#include <algorithm>

using namespace at::mps;

@implementation MPSRecordingEncoder {
  id<MTLComputeCommandEncoder> _encoder;
  MPSKernelRecorder* _recorder;
  // the sticky state, in the form in which the next dispatch takes a copy of it
  MPSKernelStep _state;
}

- (instancetype)initWithEncoder:(id<MTLComputeCommandEncoder>)encoder recorder:(MPSKernelRecorder*)recorder {
  self = [super init];
  if (self) {
    _encoder = [encoder retain];
    _recorder = recorder;
  }
  return self;
}

- (void)dealloc {
  [_encoder release];
  [super dealloc];
}

- (MPSKernelBinding&)bindingAtIndex:(NSUInteger)index {
  auto& bindings = _state.bindings;
  auto position =
      std::lower_bound(bindings.begin(), bindings.end(), index, [](const MPSKernelBinding& binding, NSUInteger wanted) {
        return binding.index < wanted;
      });
  if (position == bindings.end() || position->index != index) {
    position = bindings.insert(position, MPSKernelBinding{});
    position->index = index;
  }
  return *position;
}

- (void)recordDispatch:(MPSKernelStep::Size)kind size:(MTLSize)size threadgroup:(MTLSize)threadgroup {
  _state.size_kind = kind;
  _state.size = size;
  _state.threadgroup = threadgroup;
  _recorder->recordKernel(_state);
  _state.barrier = 0;
}

- (void)recordUseOf:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  const bool known = std::any_of(_state.resources.begin(), _state.resources.end(), [&](const MPSResourceUse& use) {
    return use.resource.get() == resource && use.usage == usage;
  });
  if (known) {
    return;
  }
  _state.resources.push_back({resource, usage});
  if ([resource conformsToProtocol:@protocol(MTLBuffer)]) {
    _recorder->useBuffer((id<MTLBuffer>)resource);
  }
}

// MARK: - recorded

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  [_encoder setComputePipelineState:state];
  _state.pipeline = state;
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [_encoder setBuffer:buffer offset:offset atIndex:index];
  auto& binding = [self bindingAtIndex:index];
  binding.buffer = buffer;
  binding.offset = offset;
  binding.holds_bytes = false;
  binding.bytes.clear();
  binding.refreshed = nullptr;
  if (buffer) {
    _recorder->useBuffer(buffer);
  }
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [_encoder setBufferOffset:offset atIndex:index];
  auto& binding = [self bindingAtIndex:index];
  if (binding.holds_bytes) {
    _recorder->refuse("setBufferOffset:atIndex: was called for index " + std::to_string(index) +
                      ", which holds bytes of setBytes:. Call setBuffer:offset:atIndex: first");
  }
  binding.offset = offset;
}

- (void)setBuffers:(const id<MTLBuffer>*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range {
  for (const auto i : c10::irange(range.length)) {
    [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
  }
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  [self bindBytes:bytes length:length atIndex:index].refreshed = _recorder->refreshOf(bytes, length);
}

- (void)setRefreshedBytes:(std::shared_ptr<const MPSRefreshedBytes>)refreshed
                 newBytes:(const void*)bytes
                  atIndex:(NSUInteger)index {
  [self bindBytes:bytes length:refreshed->length atIndex:index].refreshed = std::move(refreshed);
}

- (MPSKernelBinding&)bindBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  [_encoder setBytes:bytes length:length atIndex:index];
  auto& binding = [self bindingAtIndex:index];
  binding.buffer = {};
  binding.offset = 0;
  binding.holds_bytes = true;
  const auto* first = static_cast<const uint8_t*>(bytes);
  binding.bytes.assign(first, first + length);
  return binding;
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  [_encoder setThreadgroupMemoryLength:length atIndex:index];
  for (auto& memory : _state.threadgroup_memory) {
    if (memory.index == index) {
      memory.length = length;
      return;
    }
  }
  _state.threadgroup_memory.push_back({index, length});
}

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  [_encoder useResource:resource usage:usage];
  [self recordUseOf:resource usage:usage];
}

- (void)useResources:(const id<MTLResource>*)resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  [_encoder useResources:resources count:count usage:usage];
  for (const auto i : c10::irange(count)) {
    [self recordUseOf:resources[i] usage:usage];
  }
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  [_encoder memoryBarrierWithScope:scope];
  _state.barrier |= scope;
}

- (void)memoryBarrierWithResources:(const id<MTLResource>*)resources count:(NSUInteger)count {
  [_encoder memoryBarrierWithResources:resources count:count];
  // a barrier on all buffers orders at least what the one on some of them does
  _state.barrier |= MTLBarrierScopeBuffers;
}

- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreads:threads threadsPerThreadgroup:threadgroup];
  [self recordDispatch:MPSKernelStep::Size::THREADS size:threads threadgroup:threadgroup];
}

- (void)dispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreadgroups:threadgroups threadsPerThreadgroup:threadgroup];
  [self recordDispatch:MPSKernelStep::Size::THREADGROUPS size:threadgroups threadgroup:threadgroup];
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreadgroupsWithIndirectBuffer:buffer
                              indirectBufferOffset:offset
                             threadsPerThreadgroup:threadgroup];
  _recorder->useBuffer(buffer);
  _state.indirect_buffer = buffer;
  _state.indirect_offset = offset;
  [self recordDispatch:MPSKernelStep::Size::INDIRECT size:MTLSizeMake(0, 0, 0) threadgroup:threadgroup];
  _state.indirect_buffer = {};
}

// MARK: - passed on: no effect on what the GPU computes

- (void)endEncoding {
  [_encoder endEncoding];
}

- (id<MTLDevice>)device {
  return [_encoder device];
}

- (NSString*)label {
  return [_encoder label];
}

- (void)setLabel:(NSString*)label {
  [_encoder setLabel:label];
}

- (void)pushDebugGroup:(NSString*)name {
  [_encoder pushDebugGroup:name];
}

- (void)popDebugGroup {
  [_encoder popDebugGroup];
}

- (void)insertDebugSignpost:(NSString*)name {
  [_encoder insertDebugSignpost:name];
}

- (MTLDispatchType)dispatchType {
  return [_encoder dispatchType];
}

// MARK: - refused

// The call still reaches the GPU, so the block computes what it would without a capture; ending the capture raises.
// Nothing is thrown from here: many callers sit in a dispatch_sync block, which an exception must not leave.
- (id)forwardingTargetForSelector:(SEL)selector {
  _recorder->refuse(std::string("the compute encoder was sent '") + sel_getName(selector) +
                    "', which a graph does not record. Use another method, or move the kernel out of the capture");
  return _encoder;
}

- (BOOL)respondsToSelector:(SEL)selector {
  return [super respondsToSelector:selector] || [_encoder respondsToSelector:selector];
}

- (BOOL)conformsToProtocol:(Protocol*)protocol {
  return [super conformsToProtocol:protocol] || [_encoder conformsToProtocol:protocol];
}

@end
