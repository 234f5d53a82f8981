#pragma once

// Errors of the command buffers of a replay. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSStream.h>

#include <string>

namespace at::mps {

/// Looks for errors in each command buffer that a replay encodes to: an executable or a kernel object may commit one
/// and go on in the next. Keeps an object until the GPU is done with all of them.
class MPSReplayWatch {
 public:
  /// Watches the command buffers of the stream, or the one that is given.
  MPSReplayWatch(MPSStream* stream, NSObject* kept, MPSCommandBuffer* command_buffer = nil)
      : stream_(stream), kept_(kept), command_buffer_(command_buffer) {}

  /// Watches the current command buffer, if it is a new one. Call it before the first step, and after each step that
  /// may have committed.
  void watchCommandBuffer();
  /// When the current command buffer completes, asks `problem` for an error that Metal does not report. After
  /// watchCommandBuffer().
  void watch(std::string (^problem)(id<MTLCommandBuffer>));
  /// Calls the block when the GPU is done with the last one.
  void afterwards(void (^block)());
  id<MTLCommandBuffer> last() const {
    return watched_.get();
  }

 private:
  MPSStream* const stream_;
  NSObject* const kept_;
  MPSCommandBuffer* const command_buffer_;
  MPSRetained<id<MTLCommandBuffer>> watched_;
};

} // namespace at::mps
