#import "metal/library.h"

#include "metal/buffer.h"
#include "metal/device.h"
#include "support/counters.h"
#include "support/error.h"

#include <cstring>

using namespace mps_simulator;

namespace {

constexpr NSUInteger kArgumentAlignment = 16;

} // namespace

@implementation SimulatedArgumentEncoder

- (instancetype)initWithFunction:(std::shared_ptr<shader::Function>)function index:(unsigned)index {
  if ((self = [super init])) {
    _bufferIndex = index;
    _encodedLength = function->argument_buffer_length(index);
    _function = std::move(function);
  }
  return self;
}

- (void)dealloc {
  [_argumentBuffer release];
  [super dealloc];
}

- (NSUInteger)encodedLength {
  COUNT_CALL();
  return _encodedLength;
}

- (NSUInteger)alignment {
  COUNT_CALL();
  return kArgumentAlignment;
}

- (void)setArgumentBuffer:(id<MTLBuffer>)argumentBuffer offset:(NSUInteger)offset {
  COUNT_CALL();
  [self setTarget:argumentBuffer offset:offset function:__func__];
}

- (void)setArgumentBuffer:(id<MTLBuffer>)argumentBuffer
              startOffset:(NSUInteger)startOffset
             arrayElement:(NSUInteger)arrayElement {
  COUNT_CALL();
  const auto stride = (_encodedLength + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  [self setTarget:argumentBuffer offset:startOffset + arrayElement * stride function:__func__];
}

- (void)setTarget:(id<MTLBuffer>)argumentBuffer offset:(NSUInteger)offset function:(const char*)function {
  auto* buffer = checked_buffer(argumentBuffer, function);
  if (buffer && settings().validation) {
    if (offset > buffer->_length || _encodedLength > buffer->_length - offset) {
      violation("%s: offset %lu + encodedLength %lu is beyond the buffer's %lu bytes",
                function,
                offset,
                _encodedLength,
                buffer->_length);
    }
    if (buffer.storageMode == MTLStorageModePrivate) {
      violation("%s: the CPU cannot encode into a buffer with private storage", function);
    }
  }
  [argumentBuffer retain];
  [_argumentBuffer release];
  _argumentBuffer = argumentBuffer;
  _target = buffer ? buffer->_pointer + offset : nullptr;
}

// Where the member [[id(index)]] is.
- (char*)memberAtIndex:(NSUInteger)index function:(const char*)function {
  if (!_target) {
    violation("%s: no argument buffer has been set", function);
  }
  const int64_t offset = _function->argument_buffer_offset(_bufferIndex, static_cast<unsigned>(index));
  if (offset < 0) {
    violation(
        "%s: function %s has no member with id %lu in the argument buffer at "
        "index %u",
        function,
        _function->name().c_str(),
        index,
        _bufferIndex);
  }
  const auto* argument_buffer = (SimulatedBuffer*)_argumentBuffer;
  if (argument_buffer->_hostView) {
    const auto place = static_cast<size_t>(_target - argument_buffer->_pointer + argument_buffer->_hostStart -
                                           argument_buffer->_hostView->address() + offset);
    if (HostView::in_use(argument_buffer->_hostView.get(), place, place + sizeof(void*))) {
      violation(
          "%s: a committed command buffer that has not completed uses the "
          "argument buffer",
          function);
    }
  }
  return _target + offset;
}

- (void)encode:(id<MTLBuffer>)object
        offset:(NSUInteger)offset
       atIndex:(NSUInteger)index
      function:(const char*)function {
  auto* buffer = checked_buffer(object, function);
  if (buffer && settings().validation && offset >= buffer->_length) {
    violation("%s: offset %lu is beyond the buffer's %lu bytes", function, offset, buffer->_length);
  }
  const void* address = buffer ? buffer->_pointer + offset : nullptr;
  std::memcpy([self memberAtIndex:index function:function], &address, sizeof(address));
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  [self encode:buffer offset:offset atIndex:index function:__func__];
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
  COUNT_CALL();
  for (NSUInteger i = 0; i < range.length; ++i) {
    [self encode:buffers[i] offset:offsets[i] atIndex:range.location + i function:__func__];
  }
}

- (void*)constantDataAtIndex:(NSUInteger)index {
  COUNT_CALL();
  char* member = [self memberAtIndex:index function:__func__];
  const auto* buffer = (SimulatedBuffer*)_argumentBuffer;
  return buffer->_hostStart + (member - buffer->_pointer);
}

NOT_SIMULATED(- (void)setTexture:(id<MTLTexture>)texture atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setTextures:(const id<MTLTexture>[])textures withRange:(NSRange)range)
NOT_SIMULATED(- (void)setSamplerState:(id<MTLSamplerState>)sampler atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers withRange:(NSRange)range)
NOT_SIMULATED(- (void)setRenderPipelineState:(id<MTLRenderPipelineState>)pipeline atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setRenderPipelineStates:(const id<MTLRenderPipelineState>[])pipelines withRange:(NSRange)range)
NOT_SIMULATED(- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipeline atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setComputePipelineStates:(const id<MTLComputePipelineState>[])pipelines withRange:(NSRange)range)
NOT_SIMULATED(- (void)setIndirectCommandBuffer:(id<MTLIndirectCommandBuffer>)buffer atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setIndirectCommandBuffers:(const id<MTLIndirectCommandBuffer>[])buffers withRange:(NSRange)range)
NOT_SIMULATED(- (void)setAccelerationStructure:(id<MTLAccelerationStructure>)structure atIndex:(NSUInteger)index)
NOT_SIMULATED(- (id<MTLArgumentEncoder>)newArgumentEncoderForBufferAtIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setVisibleFunctionTable:(id<MTLVisibleFunctionTable>)table atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setVisibleFunctionTables:(const id<MTLVisibleFunctionTable>[])tables withRange:(NSRange)range)
NOT_SIMULATED(- (void)setIntersectionFunctionTable:(id<MTLIntersectionFunctionTable>)table atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setIntersectionFunctionTables:(const id<MTLIntersectionFunctionTable>[])tables
                                          withRange:(NSRange)range)

@end
