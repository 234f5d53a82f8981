#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStepEncoder.h>

#include <string>

namespace at::mps {

MPSStepEncoder::MPSStepEncoder(MPSStream* stream,
                               MPSReplayWatch& watch,
                               const MPSReplayRefreshes& refreshes,
                               id<MTLBuffer> staging)
    : stream_(stream), watch_(&watch), capture_(stream->recordingCapture()), refreshes_(refreshes), staging_(staging) {}

MPSStepEncoder::MPSStepEncoder(MPSCommandBuffer* command_buffer,
                               const MPSReplayRefreshes& refreshes,
                               id<MTLBuffer> staging)
    : command_buffer_(command_buffer), refreshes_(refreshes), staging_(staging) {}

MPSCommandBuffer* MPSStepEncoder::commandBuffer() const {
  return stream_ ? stream_->recordedCommandBuffer() : command_buffer_;
}

id<MTLComputeCommandEncoder> MPSStepEncoder::computeEncoder() {
  if (stream_) {
    return stream_->commandEncoder();
  }
  if (!compute_encoder_.get()) {
    compute_encoder_ = [command_buffer_ computeCommandEncoder];
  }
  return compute_encoder_.get();
}

void MPSStepEncoder::endComputeEncoder() {
  if (stream_) {
    stream_->endKernelCoalescing();
  } else {
    [compute_encoder_.get() endEncoding];
    compute_encoder_ = {};
  }
}

void MPSStepEncoder::commit() {
  if (stream_) {
    stream_->synchronize(SyncType::COMMIT);
    watch_->watchCommandBuffer();
  }
}

void MPSStepEncoder::encode(const MPSCommandStep& step) {
  // A capture records the state of the encoder with each kernel, so nothing may be left of earlier steps.
  if (capture_ || !usesComputeEncoder(step)) {
    endComputeEncoder();
  }
  @autoreleasepool {
    std::visit(*this, step);
  }
  // The capture hears of kernels from the stream's encoder.
  if (capture_ && !std::holds_alternative<MPSKernelStep>(step)) {
    capture_->recordStep(step);
  }
}

void MPSStepEncoder::operator()(const MPSKernelStep& kernel) {
  // The threadgroup memory of one encoder adds up against the limit of the device.
  const bool has_threadgroup_memory = !kernel.threadgroup_memory.empty();
  if (has_threadgroup_memory) {
    endComputeEncoder();
  }
  id<MTLComputeCommandEncoder> encoder = computeEncoder();
  [encoder setComputePipelineState:kernel.pipeline.get()];
  for (const auto& binding : kernel.bindings) {
    if (binding.refreshed) {
      bindRefreshed(binding, encoder);
    } else if (binding.holds_bytes) {
      [encoder setBytes:binding.bytes.data() length:binding.bytes.size() atIndex:binding.index];
    } else {
      [encoder setBuffer:binding.buffer.get() offset:binding.offset atIndex:binding.index];
    }
  }
  for (const auto& memory : kernel.threadgroup_memory) {
    [encoder setThreadgroupMemoryLength:memory.length atIndex:memory.index];
  }
  for (const auto& use : kernel.resources) {
    [encoder useResource:use.resource.get() usage:use.usage];
  }
  if (kernel.barrier) {
    [encoder memoryBarrierWithScope:kernel.barrier];
  }
  encodeDispatch(encoder, kernel);
  if (has_threadgroup_memory) {
    endComputeEncoder();
  }
}

void MPSStepEncoder::bindRefreshed(const MPSKernelBinding& binding, id<MTLComputeCommandEncoder> encoder) {
  const auto& refreshed = *binding.refreshed;
  const size_t offset = refreshes_.offsetOf(&refreshed);
  if (!capture_) {
    [encoder setBuffer:staging_ offset:offset atIndex:binding.index];
    return;
  }
  const char* bytes = static_cast<const char*>([staging_ contents]) + offset;
  auto& own = refreshed_[&refreshed];
  if (!own) {
    own = std::make_shared<const MPSRefreshedBytes>(refreshed);
  }
  [(MPSRecordingEncoder*)encoder setRefreshedBytes:own newBytes:bytes atIndex:binding.index];
}

void MPSStepEncoder::operator()(const MPSGraphRunStep& run) {
  encodeRun(commandBuffer(), run);
  if (watch_) {
    watch_->watchCommandBuffer();
  }
}

void MPSStepEncoder::operator()(const MPSEncodeStep& object) {
  if (object.takes_encoder && !capture_) {
    object.encode.get()(commandBuffer(), computeEncoder());
  } else {
    encodeAlone(commandBuffer(), object);
    if (watch_) {
      watch_->watchCommandBuffer();
    }
  }
}

void MPSStepEncoder::operator()(const MPSCopyStep& copy) {
  id<MTLBlitCommandEncoder> encoder = [commandBuffer() blitCommandEncoder];
  encodeCopy(encoder, copy);
  [encoder endEncoding];
}

void MPSStepEncoder::operator()(const MPSFillStep& fill) {
  id<MTLBlitCommandEncoder> encoder = [commandBuffer() blitCommandEncoder];
  [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
  [encoder endEncoding];
}

void MPSStepEncoder::operator()(const MPSHostRefreshStep& refresh) {
  (*this)(MPSCopyStep{staging_, refresh.destination, refresh.length, refreshes_.offsetOf(&refresh), refresh.offset});
}

void MPSStepEncoder::operator()(const MPSStatusStep& status) {
  // The host looks at a copy, since the next replay may write the status again before.
  const size_t offset = refreshes_.offsetOf(&status);
  (*this)(MPSCopyStep{status.buffer, staging_, sizeof(int32_t), status.offset, offset});
  TORCH_INTERNAL_ASSERT(watch_);
  const auto message = status.message;
  id<MTLBuffer> staging = staging_;
  watch_->watch(^(id<MTLCommandBuffer>) {
    const auto value = *reinterpret_cast<const int32_t*>(static_cast<const char*>([staging contents]) + offset);
    return value == 0 ? std::string()
                      : "torch.mps graph replay: " + *message + " (status " + std::to_string(value) + ")";
  });
}

} // namespace at::mps
