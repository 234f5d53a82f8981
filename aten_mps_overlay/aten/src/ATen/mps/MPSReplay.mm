#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSProfiler.h>
#include <ATen/mps/MPSReplay.h>
#include <ATen/mps/MPSStepEncoder.h>
#include <c10/util/irange.h>

namespace at::mps {

MPSReplay::MPSReplay(std::shared_ptr<const MPSRecording> recording, size_t encode_ahead, MPSStream* stream)
    : recording_(std::move(recording)), refreshes_(recording_->steps) {
  why_not_ahead_ = encode_ahead > 0 ? findWhyNotAhead() : "encode_ahead is 0";
  if (why_not_ahead_.empty()) {
    ready_ = std::make_shared<MPSReadyReplays>(encode_ahead, [this, stream] { return encodeReady(stream); });
  }
}

MPSReplay::~MPSReplay() {
  if (ready_) {
    ready_->close(); // it encodes what the members keep
  }
}

void MPSReplay::submit(MPSStream* stream) const {
  if (auto* capture = stream->recordingCapture()) {
    dropReady();
    capture->keepPart(recording_);
    submitNow(stream);
    return;
  }
  const auto& profiler = getMPSProfiler();
  if (profiler.isCaptureEnabled() && profiler.isCapturing()) {
    dropReady(); // Metal's trace has only command buffers that were made during the trace
  }
  auto ready = ready_ ? ready_->take() : std::nullopt;
  if (ready) {
    submitReady(stream, std::move(*ready));
  } else {
    submitNow(stream);
    if (ready_) {
      ready_->prepare();
    }
  }
}

void MPSReplay::submitNow(MPSStream* stream) const {
  stream->endKernelCoalescing();
  // Commit earlier work, so that its errors are not reported as errors of the replay.
  stream->commitEarlierWork();
  auto staging = refreshes_.takeStaging(stream->device());
  refreshes_.write(staging.get());
  recording_->countReplay();
  // The watch keeps the executables until the GPU is done: the graph may be dropped earlier.
  MPSReplayWatch watch(stream, recording_->executables.get());
  watch.watchCommandBuffer();
  MPSStepEncoder encoder(stream, watch, refreshes_, staging.get());
  if (stream->recordingCapture()) {
    for (const auto i : c10::irange(recording_->steps.size())) {
      setInnermostOperator(recording_->operators[i].c_str());
      encoder.encode(recording_->steps[i]);
    }
  } else {
    encode(encoder, stream->recordedCommandBuffer(), staging.get());
    refreshes_.giveBackAfter(watch, std::move(staging));
  }
  // lets the GPU start, as eager work does whenever the backend commits
  stream->synchronize(SyncType::COMMIT);
}

void MPSReplay::submitReady(MPSStream* stream, MPSReadyReplay ready) const {
  refreshes_.write(ready.staging.get());
  recording_->countReplay();
  MPSReplayWatch watch(stream, recording_->executables.get(), ready.command_buffer.get());
  watch.watchCommandBuffer();
  refreshes_.giveBackAfter(watch, std::move(ready.staging));
  ready_->prepareAfter(ready.command_buffer.get().commandBuffer);
  stream->commitAfterEarlierWork(ready.command_buffer.get());
}

void MPSReplay::encode(MPSStepEncoder& steps, MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const {
  refreshes_.encodeFirstBlit(command_buffer, staging);
  for (const auto& step : recording_->steps) {
    if (!refreshes_.isInFirstBlit(step)) {
      steps.encode(step);
    }
  }
  steps.endComputeEncoder();
}

MPSReadyReplay MPSReplay::encodeReady(MPSStream* stream) const {
  MPSReadyReplay ready;
  ready.staging = refreshes_.takeStaging(stream->device());
  ready.command_buffer = [MPSCommandBuffer commandBufferFromCommandQueue:stream->commandQueue()];
  id<MTLCommandBuffer> first = ready.command_buffer.get().commandBuffer;
  MPSStepEncoder steps(ready.command_buffer.get(), refreshes_, ready.staging.get());
  encode(steps, ready.command_buffer.get(), ready.staging.get());
  if (ready.command_buffer.get().commandBuffer != first) {
    const std::string error =
        "torch.mps graph replay: an MPSGraphExecutable committed work that was encoded ahead of its replay, so results "
        "of the graph may be wrong. Make the graph with encode_ahead=0.";
    stream->finishCheck(stream->expectCheck(), error);
    TORCH_CHECK(false, error);
  }
  return ready;
}

std::string MPSReplay::findWhyNotAhead() const {
  for (const auto i : c10::irange(recording_->steps.size())) {
    const auto& step = recording_->steps[i];
    if (std::holds_alternative<MPSEncodeStep>(step)) {
      return recording_->operators[i] + " uses an MPS kernel object, which is encoded on the stream's queue";
    }
    if (std::holds_alternative<MPSStatusStep>(step)) {
      return recording_->operators[i] + " reads a status after each replay";
    }
  }
  if (recording_->executables.get().count > 0 && !executablesNeverCommit()) {
    return "this version of macOS can't keep an MPSGraphExecutable from committing";
  }
  return "";
}

} // namespace at::mps
