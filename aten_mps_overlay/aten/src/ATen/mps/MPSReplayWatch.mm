#include <ATen/mps/MPSReplayWatch.h>

namespace at::mps {

void MPSReplayWatch::watchCommandBuffer() {
  id<MTLCommandBuffer> command_buffer =
      (command_buffer_ ? command_buffer_ : stream_->recordedCommandBuffer()).commandBuffer;
  if (command_buffer != watched_.get()) {
    watched_ = command_buffer;
    watch(^(id<MTLCommandBuffer>) {
      return std::string();
    });
  }
}

void MPSReplayWatch::watch(std::string (^problem)(id<MTLCommandBuffer>)) {
  auto* stream = stream_;
  NSObject* kept = kept_;
  const size_t check = stream->expectCheck();
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer> command_buffer) {
    (void)kept; // the block retains it
    if (command_buffer.status == MTLCommandBufferStatusError) {
      const char* reason = command_buffer.error.localizedDescription.UTF8String;
      stream->finishCheck(
          check,
          std::string("torch.mps graph replay: the GPU reported an error: ") + (reason ? reason : "it gave no reason"));
    } else {
      stream->finishCheck(check, problem(command_buffer));
    }
  }];
}

void MPSReplayWatch::afterwards(void (^block)()) {
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer>) {
    block();
  }];
}

} // namespace at::mps
