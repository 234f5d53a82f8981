#include <ATen/mps/MPSReplayRefreshes.h>

#include <algorithm>
#include <map>

namespace at::mps {

// Replays that copy more than this wait for the GPU, unless there are few.
static constexpr size_t kMostBytesLent = 32 << 20;
static constexpr size_t kFewLent = 2;
// How many that the GPU has read stay for later replays.
static constexpr size_t kMostFree = 2;

MPSRetained<id<MTLBuffer>> MPSStagingBuffers::take(id<MTLDevice> device) {
  Lent oldest;
  do {
    // not under the lock, which handlers of the command buffer take
    [oldest.reader.get() waitUntilCompleted];
    giveBack(oldest.number);
    std::lock_guard<std::mutex> lock(mutex_);
    const bool has_room = lent_.size() < kFewLent || (lent_.size() + 1) * length_ <= kMostBytesLent;
    oldest = has_room ? Lent() : lent_.front();
    if (has_room && !free_.empty()) {
      auto buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  } while (oldest.number > 0);
  id<MTLBuffer> buffer = [device newBufferWithLength:length_ options:MTLResourceStorageModeShared];
  TORCH_CHECK(
      buffer, "torch.mps graph replay: out of memory for the ", length_, " bytes that the host gives to the device");
  MPSRetained<id<MTLBuffer>> taken(buffer);
  [buffer release];
  return taken;
}

size_t MPSStagingBuffers::lend(MPSRetained<id<MTLBuffer>> buffer, id<MTLCommandBuffer> reader) {
  std::lock_guard<std::mutex> lock(mutex_);
  lent_.push_back({++last_number_, std::move(buffer), reader});
  return last_number_;
}

void MPSStagingBuffers::giveBack(size_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto lent = std::find_if(lent_.begin(), lent_.end(), [&](const auto& entry) { return entry.number == number; });
  if (lent == lent_.end()) {
    return; // take() has waited for it
  }
  if (free_.size() < kMostFree) {
    free_.push_back(std::move(lent->buffer));
  }
  lent_.erase(lent);
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
