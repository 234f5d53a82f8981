#import "metal/compute_encoder.h"

#include "foundation/object_memory.h"
#include "metal/buffer.h"
#include "metal/indirect_execution.h"
#include "metal/pipeline.h"
#include "support/counters.h"
#include "support/error.h"

#include <cstring>
#include <memory>

// The protocol of the class's main interface declares these methods already.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

using namespace mps_simulator;

namespace {

constexpr NSUInteger kMostCommands = 16384;

class ExecuteCommand final : public GpuCommand {
 public:
  ExecuteCommand(const SimulatedIndirectCommandBuffer* commands,
                 NSRange range,
                 const SimulatedBuffer* range_buffer,
                 const char* range_on_gpu,
                 std::shared_ptr<const IndirectContext> context,
                 const char* function)
      : commands_(commands),
        range_(range),
        range_buffer_(range_buffer),
        range_on_gpu_(range_on_gpu),
        context_(std::move(context)),
        function_(function) {}

  void run() override {
    const NSRange range = range_to_run();
    [(id)commands_ checkRange:range function:function_];
    run_indirect_commands(commands_, range, *context_, function_);
  }

  void collect_accesses(std::vector<GpuAccess>& accesses, bool about_to_run) const override {
    if (range_on_gpu_) {
      constexpr auto kSize = sizeof(MTLIndirectCommandBufferExecutionRange);
      accesses.push_back({range_buffer_, range_on_gpu_, range_on_gpu_ + kSize, false});
      if (!about_to_run) {
        // An earlier command may write it, so any command may be in it.
        const auto all = NSMakeRange(0, commands_->_commands.size());
        collect_indirect_accesses(commands_, all, *context_, accesses);
        return;
      }
    }
    collect_indirect_accesses(commands_, range_to_run(), *context_, accesses);
  }

  std::string describe() const override {
    return "command " + std::to_string(place) + " (of an indirect command buffer)";
  }

 private:
  NSRange range_to_run() const {
    if (!range_on_gpu_) {
      return range_;
    }
    MTLIndirectCommandBufferExecutionRange range;
    std::memcpy(&range, range_on_gpu_, sizeof(range));
    return NSMakeRange(range.location, range.length);
  }

  const SimulatedIndirectCommandBuffer* commands_;
  NSRange range_;
  const SimulatedBuffer* range_buffer_;
  const char* range_on_gpu_;
  std::shared_ptr<const IndirectContext> context_;
  const char* function_;
};

} // namespace

@implementation SimulatedComputeCommandEncoder (Indirect)

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
  if (settings().validation && !commands->_pendingChanges) {
    check_indirect_commands(commands, executionRange, *context, __func__);
  }
  [_commandBuffer useIndirectCommandBuffer:commands];
  _commandBuffer->_commands.append<ExecuteCommand>(
      commands, executionRange, nullptr, nullptr, std::move(context), __func__);
}

- (void)executeCommandsInBuffer:(id<MTLIndirectCommandBuffer>)indirectCommandbuffer
                 indirectBuffer:(id<MTLBuffer>)indirectRangeBuffer
           indirectBufferOffset:(NSUInteger)indirectBufferOffset {
  COUNT_CALL();
  VALIDATE_ENCODING();
  auto* commands = [self checkedCommands:indirectCommandbuffer function:__func__];
  auto* buffer = checked_buffer(indirectRangeBuffer, __func__);
  VALIDATE(buffer, "the indirect buffer is nil");
  VALIDATE(indirectBufferOffset % 4 == 0, "offset %lu is not a multiple of 4", indirectBufferOffset);
  constexpr NSUInteger kSize = sizeof(MTLIndirectCommandBufferExecutionRange);
  VALIDATE(indirectBufferOffset <= buffer->_length && kSize <= buffer->_length - indirectBufferOffset,
           "offset %lu + size %lu is beyond the buffer's %lu bytes",
           indirectBufferOffset,
           kSize,
           buffer->_length);
  [_commandBuffer retainUntilCompleted:buffer];
  [_commandBuffer useIndirectCommandBuffer:commands];
  _commandBuffer->_commands.append<ExecuteCommand>(
      commands, NSMakeRange(0, 0), buffer, buffer->_pointer + indirectBufferOffset, [self indirectContext], __func__);
}

@end
