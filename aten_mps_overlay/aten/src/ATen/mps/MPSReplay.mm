#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSReplay.h>
#include <ATen/mps/MPSStepEncoder.h>
#include <c10/util/env.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

namespace at::mps {

MPSReplay::MPSReplay(std::shared_ptr<const MPSRecording> recording,
                     size_t link_limit,
                     MPSGraphPool pool,
                     id<MTLDevice> device,
                     MPSGraphCompilationDescriptor* descriptor)
    : recording_(std::move(recording)), refreshes_(recording_->steps) {
  for (const auto& step : recording_->steps) {
    if (!refreshes_.isEarly(step)) {
      order_.push_back(&step);
    }
  }
  @autoreleasepool {
    NSMutableArray* used = [NSMutableArray arrayWithArray:recording_->executables.get()];
    if (link_limit > 0) {
      link(link_limit, pool, device, descriptor);
      for (const auto& run : linked_) {
        [used addObject:std::get<MPSGraphRunStep>(run.step).executable.get()];
      }
    }
    if (c10::utils::check_env("PYTORCH_MPS_GRAPH_PLAN").value_or(true)) {
      plan_ = std::make_unique<const MPSReplayPlan>(order_, refreshes_, device);
      plan_->addUsedIndirectlyTo(used);
    }
    used_ = [[used copy] autorelease];
  }
}

void MPSReplay::link(size_t limit, MPSGraphPool pool, id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  const auto begin = std::chrono::steady_clock::now();
  auto runs = linkRuns(order_, device, descriptor, pool, limit);
  if (!runs) {
    TORCH_WARN_ONCE(
        "torch.mps graph capture: link=True needs macOS 15.0 or newer. The MPSGraph runs of this graph and of later "
        "ones are replayed one by one.");
    return;
  }
  linked_ = std::move(*runs);
  // A linked run comes where its first part was.
  std::unordered_map<const MPSCommandStep*, const MPSCommandStep*> replaced;
  for (const auto& run : linked_) {
    for (const auto& part : run.parts) {
      replaced[part.step] = &part == &run.parts.front() ? &run.step : nullptr;
    }
  }
  for (auto& step : order_) {
    const auto other = replaced.find(step);
    step = other == replaced.end() ? step : other->second;
  }
  order_.erase(std::remove(order_.begin(), order_.end(), nullptr), order_.end());
  const auto taken = std::chrono::steady_clock::now() - begin;
  link_microseconds_ = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
}

void MPSReplay::encode(MPSStream* stream) const {
  auto* capture = stream->recordingCapture();
  if (capture) {
    capture->keepPart(recording_);
  }
  stream->endKernelCoalescing();
  // Commit earlier work, so that its errors are not reported as errors of the replay.
  stream->commitEarlierWork();
  auto staging = refreshes_.write(stream->device());
  recording_->countReplay();
  // The watch keeps the executables until the GPU is done: the graph may be dropped earlier.
  MPSReplayWatch watch(stream, used_.get());
  watch.look();
  MPSStepEncoder encoder(stream, watch, refreshes_, staging.get());
  if (capture) {
    for (const auto i : c10::irange(recording_->steps.size())) {
      setInnermostOperator(recording_->operators[i].c_str());
      encoder.encode(recording_->steps[i]);
    }
  } else {
    refreshes_.encodeEarly(stream->recordedCommandBuffer(), staging.get());
    if (plan_) {
      plan_->encode(stream, watch, encoder, staging.get());
    } else {
      for (const auto* step : order_) {
        encoder.encode(*step);
      }
    }
    refreshes_.giveBackAfter(watch, std::move(staging));
  }
  stream->endKernelCoalescing();
}

} // namespace at::mps
