#include <ATen/mps/MPSReplayRefreshes.h>

#include <map>

namespace at::mps {

MPSRetained<id<MTLBuffer>> MPSStagingBuffers::take(id<MTLDevice> device) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      auto buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  id<MTLBuffer> buffer = [device newBufferWithLength:length_ options:MTLResourceStorageModeShared];
  TORCH_CHECK(
      buffer, "torch.mps graph replay: out of memory for the ", length_, " bytes that the host gives to the device");
  MPSRetained<id<MTLBuffer>> taken(buffer);
  [buffer release];
  return taken;
}

void MPSStagingBuffers::giveBack(MPSRetained<id<MTLBuffer>> buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(buffer));
}

MPSReplayRefreshes::MPSReplayRefreshes(const std::vector<MPSCommandStep>& steps) {
  constexpr size_t alignment = 16;
  std::map<const void*, size_t> uses;
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      uses[refresh->destination.get()]++;
    }
  }
  size_t total = 0;
  const auto add = [&](const void* owner, Refresh refresh, size_t length) {
    if (places_.try_emplace(owner, refreshes_.size()).second) {
      refresh.offset = total;
      refreshes_.push_back(refresh);
      total += (length + alignment - 1) / alignment * alignment;
    }
  };
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      const bool is_early = refresh->owns_destination && uses.at(refresh->destination.get()) == 1;
      has_early_ |= is_early;
      add(refresh, {refresh->refresh.get(), refresh, 0, is_early}, refresh->length);
    } else if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
      for (const auto& binding : kernel->bindings) {
        if (const auto* refreshed = binding.refreshed.get()) {
          add(refreshed, {refreshed->refresh.get(), nullptr, 0, false}, refreshed->length);
        }
      }
    }
  }
  staging_ = std::make_shared<MPSStagingBuffers>(total);
}

bool MPSReplayRefreshes::isEarly(const MPSCommandStep& step) const {
  const auto* refresh = std::get_if<MPSHostRefreshStep>(&step);
  return refresh && find(refresh).is_early;
}

void MPSReplayRefreshes::check() const {
  for (const auto& refresh : refreshes_) {
    refresh.refresh->check();
  }
}

MPSRetained<id<MTLBuffer>> MPSReplayRefreshes::write(id<MTLDevice> device) const {
  if (refreshes_.empty()) {
    return {};
  }
  auto staging = staging_->take(device);
  auto* bytes = static_cast<char*>([staging.get() contents]);
  for (const auto& refresh : refreshes_) {
    refresh.refresh->write(bytes + refresh.offset);
  }
  return staging;
}

void MPSReplayRefreshes::encode(id<MTLBlitCommandEncoder> encoder,
                                id<MTLBuffer> staging,
                                const MPSHostRefreshStep& step) const {
  encodeCopy(encoder, {staging, step.destination, step.length, find(&step).offset, step.offset});
}

void MPSReplayRefreshes::encodeEarly(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const {
  if (!has_early_) {
    return;
  }
  id<MTLBlitCommandEncoder> encoder = [command_buffer blitCommandEncoder];
  for (const auto& refresh : refreshes_) {
    if (refresh.is_early) {
      encode(encoder, staging, *refresh.step);
    }
  }
  [encoder endEncoding];
}

} // namespace at::mps
