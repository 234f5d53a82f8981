#pragma once

#import <Metal/Metal.h>

#include "metal/dispatch.h"
#include "metal/resource.h"

#include <atomic>
#include <vector>

@class SimulatedBuffer;
@class SimulatedComputePipelineState;

namespace mps_simulator {

// One command, as its setters left it. As on a GPU it is plain memory and
// retains nothing.
struct IndirectCommand {
  enum class Grid { none, threads, threadgroups };

  SimulatedComputePipelineState* pipeline = nullptr;
  ComputeBindings bindings;
  SimulatedBuffer* buffers[kBufferSlots] = {};
  Grid kind = Grid::none;
  MTLSize grid = {0, 0, 0};
  MTLSize threadgroup = {0, 0, 0};
  bool barrier = false;
};

} // namespace mps_simulator

@interface SimulatedIndirectCommandBuffer : SimulatedResource <MTLIndirectCommandBuffer> {
 @public
  std::vector<mps_simulator::IndirectCommand> _commands;
  MTLIndirectCommandType _types;
  BOOL _inheritPipelineState;
  BOOL _inheritBuffers;
  NSUInteger _bufferCount;
  NSUInteger _threadgroupMemoryCount;
  // Committed command buffers that will execute or change it.
  std::atomic<int> _inFlight;
  // Blits encoded so far that change it: its content is unknown until they have
  // run.
  std::atomic<int> _pendingChanges;
}
- (instancetype)initWithDescriptor:(MTLIndirectCommandBufferDescriptor*)descriptor
                             count:(NSUInteger)count
                           options:(MTLResourceOptions)options;
- (void)checkRange:(NSRange)range function:(const char*)function;
@end

namespace mps_simulator {

// Raises a violation for what is not a live indirect command buffer.
SimulatedIndirectCommandBuffer* checked_indirect_command_buffer(id<MTLIndirectCommandBuffer> buffer,
                                                                const char* function);

} // namespace mps_simulator
