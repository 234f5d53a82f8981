#pragma once

#import <Metal/Metal.h>

#include "metal/dispatch.h"
#include "metal/residency.h"
#include "metal/buffer.h"

#include <atomic>
#include <optional>
#include <set>
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
  // Committed command buffers that will execute it.
  std::atomic<int> _inFlight;
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

// Writes one command of an indirect command buffer, which it does not retain.
@interface SimulatedIndirectComputeCommand : NSObject <MTLIndirectComputeCommand> {
 @private
  SimulatedIndirectCommandBuffer* _buffer;
  NSUInteger _index;
}
- (instancetype)initWithBuffer:(SimulatedIndirectCommandBuffer*)buffer index:(NSUInteger)index;
@end

namespace mps_simulator {

// What the commands of an indirect command buffer take from the encoder that
// executes them.
struct IndirectContext {
  SimulatedComputePipelineState* pipeline = nullptr;
  ComputeBindings bindings;
  Residency residency;
  SimulatedBuffer* buffers[kBufferSlots] = {};
  // The pipelines that the encoder has dispatched; none where the GPU loads those of commands by itself.
  std::optional<std::set<const SimulatedComputePipelineState*>> dispatched;
};

// Commands between two barriers may run at the same time: none of them may
// touch what another one writes. Raises a violation for a command that could
// not run or that conflicts with another one.
void check_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                             NSRange range,
                             const IndirectContext& context,
                             const char* function);

// What the commands of the range touch, of those that could run.
void collect_indirect_accesses(const SimulatedIndirectCommandBuffer* commands,
                               NSRange range,
                               const IndirectContext& context,
                               std::vector<GpuAccess>& accesses);

// By the GPU: the same checks, and the commands, those between two barriers in
// an order that depends on the seed.
void run_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                           NSRange range,
                           const IndirectContext& context,
                           const char* function);

} // namespace mps_simulator
