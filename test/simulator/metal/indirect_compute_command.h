#pragma once

#import "metal/indirect_command_buffer.h"

// Writes one command of an indirect command buffer, which it does not retain.
@interface SimulatedIndirectComputeCommand : NSObject <MTLIndirectComputeCommand> {
 @private
  SimulatedIndirectCommandBuffer* _buffer;
  NSUInteger _index;
}
- (instancetype)initWithBuffer:(SimulatedIndirectCommandBuffer*)buffer index:(NSUInteger)index;
@end
