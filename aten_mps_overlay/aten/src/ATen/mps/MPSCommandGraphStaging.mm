#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSCommandGraphStaging.h>

#include <algorithm>
#include <map>

namespace at::mps {

// Replays that copy more than this wait for the GPU, unless there are few.
static constexpr size_t kMostBytesLent = 32 << 20;
static constexpr size_t kFewLent = 2;
// How many that the GPU has read stay for later replays.
static constexpr size_t kMostFree = 2;

MPSRetained<id<MTLBuffer>> MPSStagingBuffers::take(id<MTLDevice> device, MPSStream* stream) {
  Lent oldest;
  do {
    // Handlers of the command buffer take the lock, so it must not be held while waiting.
    if (oldest.number > 0) {
      if (stream) {
        stream->synchronize(SyncType::COMMIT);
      }
      [oldest.reader.get() waitUntilCompleted];
      giveBack(oldest.number);
    }
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
  if (are_used_again_ && free_.size() < kMostFree) {
    free_.push_back(std::move(lent->buffer));
  }
  lent_.erase(lent);
}

MPSReplayRefreshes::MPSReplayRefreshes(const std::deque<MPSCommandStep>& steps) {
  size_t total = 0;
  bool has_statuses = false;
  const auto add = [&](const void* owner, size_t length, MPSHostRefresh* refresh, size_t alignment = 16) {
    total = (total + alignment - 1) / alignment * alignment;
    if (offsets_.try_emplace(owner, total).second) {
      if (refresh) {
        refreshes_.emplace_back(refresh, total);
      }
      total += length;
    }
  };
  std::map<const void*, size_t> uses;
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      uses[refresh->destination.get()]++;
      add(refresh, refresh->length, refresh->refresh.get());
    } else if (const auto* kernels = std::get_if<MPSKernelStep>(&step)) {
      for (const auto& refreshed : kernels->refreshed) {
        // kernels read it in place: what GPUs of Intel's Macs need for that
        add(refreshed.get(), refreshed->length, refreshed->refresh.get(), /*alignment=*/256);
      }
    } else if (const auto* status = std::get_if<MPSStatusStep>(&step)) {
      add(status, sizeof(int32_t), nullptr);
      has_statuses = true;
    }
  }
  for (const auto& step : steps) {
    const auto* refresh = std::get_if<MPSHostRefreshStep>(&step);
    if (refresh && refresh->owns_destination && uses.at(refresh->destination.get()) == 1) {
      in_first_blit_.emplace(offsetOf(refresh), refresh);
    }
  }
  staging_ = std::make_shared<MPSStagingBuffers>(total, /*are_used_again=*/!has_statuses);
}

bool MPSReplayRefreshes::isInFirstBlit(const MPSCommandStep& step) const {
  const auto* refresh = std::get_if<MPSHostRefreshStep>(&step);
  return refresh && in_first_blit_.count(offsetOf(refresh)) > 0;
}

void MPSReplayRefreshes::check() const {
  for (const auto& [refresh, offset] : refreshes_) {
    refresh->check();
  }
}

MPSRetained<id<MTLBuffer>> MPSReplayRefreshes::takeStaging(id<MTLDevice> device, MPSStream* stream) const {
  return offsets_.empty() ? MPSRetained<id<MTLBuffer>>() : staging_->take(device, stream);
}

void MPSReplayRefreshes::write(id<MTLBuffer> staging) const {
  auto* bytes = static_cast<char*>([staging contents]);
  for (const auto& [refresh, offset] : refreshes_) {
    refresh->write(bytes + offset);
  }
}

void MPSReplayRefreshes::encodeFirstBlit(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const {
  if (in_first_blit_.empty()) {
    return;
  }
  id<MTLBlitCommandEncoder> encoder = [command_buffer blitCommandEncoder];
  for (const auto& [offset, refresh] : in_first_blit_) {
    encodeCopy(encoder, {staging, refresh->destination, refresh->length, offset, refresh->offset});
  }
  [encoder endEncoding];
}

void MPSReplayRefreshes::giveBackAfter(MPSReplayWatch& reader, MPSRetained<id<MTLBuffer>> staging) const {
  if (!staging.get()) {
    return;
  }
  auto buffers = staging_;
  const size_t number = buffers->lend(std::move(staging), reader.last());
  reader.afterwards(^{
    buffers->giveBack(number);
  });
}

} // namespace at::mps
