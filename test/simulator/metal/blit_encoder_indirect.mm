#import "metal/blit_encoder.h"

#include "metal/indirect_command_buffer.h"
#include "support/counters.h"
#include "support/error.h"

#include <algorithm>

// The protocol of the class's main interface declares these methods already.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

using namespace mps_simulator;

namespace {

// A change of an indirect command buffer by the GPU.
class ChangeCommand : public GpuCommand {
 public:
  explicit ChangeCommand(SimulatedIndirectCommandBuffer* target) : target_(target) {
    ++target_->_pendingChanges;
  }
  ~ChangeCommand() override {
    --target_->_pendingChanges;
  }

 protected:
  SimulatedIndirectCommandBuffer* target_;
};

class ResetCommand final : public ChangeCommand {
 public:
  ResetCommand(SimulatedIndirectCommandBuffer* target, NSRange range) : ChangeCommand(target), range_(range) {}
  void run() override {
    std::fill_n(
        target_->_commands.begin() + static_cast<std::ptrdiff_t>(range_.location), range_.length, IndirectCommand{});
  }

 private:
  NSRange range_;
};

class CopyCommandsCommand final : public ChangeCommand {
 public:
  CopyCommandsCommand(SimulatedIndirectCommandBuffer* target,
                      NSUInteger index,
                      const SimulatedIndirectCommandBuffer* source,
                      NSRange range)
      : ChangeCommand(target), index_(index), source_(source), range_(range) {}
  void run() override {
    std::copy_n(source_->_commands.begin() + static_cast<std::ptrdiff_t>(range_.location),
                range_.length,
                target_->_commands.begin() + static_cast<std::ptrdiff_t>(index_));
  }

 private:
  NSUInteger index_;
  const SimulatedIndirectCommandBuffer* source_;
  NSRange range_;
};

} // namespace

@implementation SimulatedBlitCommandEncoder (Indirect)

- (void)resetCommandsInBuffer:(id<MTLIndirectCommandBuffer>)buffer withRange:(NSRange)range {
  COUNT_CALL();
  EncoderCall call(_failed);
  VALIDATE_ENCODING();
  auto* target = checked_indirect_command_buffer(buffer, __func__);
  [target checkRange:range function:__func__];
  [_commandBuffer useIndirectCommandBuffer:target];
  _commandBuffer->_commands.append<ResetCommand>(target, range);
  call.succeeded();
}

- (void)copyIndirectCommandBuffer:(id<MTLIndirectCommandBuffer>)source
                      sourceRange:(NSRange)sourceRange
                      destination:(id<MTLIndirectCommandBuffer>)destination
                 destinationIndex:(NSUInteger)destinationIndex {
  COUNT_CALL();
  EncoderCall call(_failed);
  VALIDATE_ENCODING();
  auto* from = checked_indirect_command_buffer(source, __func__);
  auto* to = checked_indirect_command_buffer(destination, __func__);
  [from checkRange:sourceRange function:__func__];
  [to checkRange:NSMakeRange(destinationIndex, sourceRange.length) function:__func__];
  VALIDATE(from != to, "source and destination are the same");
  VALIDATE(from->_types == to->_types && from->_inheritBuffers == to->_inheritBuffers &&
               from->_inheritPipelineState == to->_inheritPipelineState && from->_bufferCount == to->_bufferCount,
           "source and destination were made with different descriptors");
  [_commandBuffer useIndirectCommandBuffer:from];
  [_commandBuffer useIndirectCommandBuffer:to];
  _commandBuffer->_commands.append<CopyCommandsCommand>(to, destinationIndex, from, sourceRange);
  call.succeeded();
}

- (void)optimizeIndirectCommandBuffer:(id<MTLIndirectCommandBuffer>)indirectCommandBuffer withRange:(NSRange)range {
  COUNT_CALL();
  EncoderCall call(_failed);
  VALIDATE_ENCODING();
  auto* target = checked_indirect_command_buffer(indirectCommandBuffer, __func__);
  [target checkRange:range function:__func__];
  // It may make the commands faster and must not change their results.
  [_commandBuffer useIndirectCommandBuffer:target];
  call.succeeded();
}

@end
