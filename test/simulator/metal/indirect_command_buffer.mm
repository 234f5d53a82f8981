#import "metal/indirect_command_buffer.h"

#include "support/error.h"

@implementation MTLIndirectCommandBufferDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _inheritPipelineState = YES;
    _inheritBuffers = YES;
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  MTLIndirectCommandBufferDescriptor* copy =
      [[MTLIndirectCommandBufferDescriptor alloc] init];
  copy.commandTypes = _commandTypes;
  copy.inheritPipelineState = _inheritPipelineState;
  copy.inheritBuffers = _inheritBuffers;
  copy.maxVertexBufferBindCount = _maxVertexBufferBindCount;
  copy.maxFragmentBufferBindCount = _maxFragmentBufferBindCount;
  copy.maxKernelBufferBindCount = _maxKernelBufferBindCount;
  copy.maxKernelThreadgroupMemoryBindCount =
      _maxKernelThreadgroupMemoryBindCount;
  copy.supportRayTracing = _supportRayTracing;
  copy.supportDynamicAttributeStride = _supportDynamicAttributeStride;
  return copy;
}

@end

namespace mps_simulator {

id<MTLIndirectCommandBuffer> new_indirect_command_buffer(
    MTLIndirectCommandBufferDescriptor* descriptor,
    NSUInteger count,
    MTLResourceOptions options) {
  unsupported(
      "-[MTLDevice newIndirectCommandBufferWithDescriptor:maxCommandCount:"
      "options:]");
}

} // namespace mps_simulator
