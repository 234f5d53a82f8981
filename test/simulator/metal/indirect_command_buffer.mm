#import "metal/indirect_command_buffer.h"

#include "foundation/copying.h"
#include "foundation/object_memory.h"
#include "metal/indirect_compute_command.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/not_simulated.h"

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

- (NSUInteger)size {
  COUNT_CALL();
  return _commands.size();
}

- (MTLResourceID)gpuResourceID {
  COUNT_CALL();
  return {reinterpret_cast<uint64_t>(self)};
}

- (NSUInteger)allocatedSize {
  return _commands.size() * sizeof(IndirectCommand);
}

- (id<MTLHeap>)heap {
  return nil;
}

- (NSUInteger)heapOffset {
  return 0;
}

NOT_SIMULATED(- (void)makeAliasable)

- (BOOL)isAliasable {
  return NO;
}

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

- (void)resetWithRange:(NSRange)range {
  COUNT_CALL();
  [self checkRange:range function:__func__];
  VALIDATE(!_inFlight, "a committed command buffer that has not completed uses the commands");
  for (NSUInteger i = 0; i < range.length; ++i) {
    _commands[range.location + i] = {};
  }
}

NOT_SIMULATED(- (id<MTLIndirectRenderCommand>)indirectRenderCommandAtIndex:(NSUInteger)commandIndex)

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
  if (buffer && object_getClass(buffer) == buffer_class) {
    return (SimulatedIndirectCommandBuffer*)buffer;
  }
  violation("%s: the indirect command buffer %s",
            function,
            !buffer                              ? "is nil"
                : destroyed_object_class(buffer) ? "has been released"
                                                 : "does not belong to this device");
}

} // namespace mps_simulator
