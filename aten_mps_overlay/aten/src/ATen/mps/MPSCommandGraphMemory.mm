#include <ATen/mps/MPSCommandGraphMemory.h>
#include <c10/util/ArrayRef.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace at::mps {

MPSPinnedBuffers::~MPSPinnedBuffers() {
  // at once: the scalars among them wait for the queue
  getIMPSAllocator()->unpin(std::vector<const void*>(buffers_.begin(), buffers_.end()));
}

void MPSPinnedBuffers::pin(const void* buffer) {
  if (!contains(buffer) && getIMPSAllocator()->pin(buffer)) {
    buffers_.insert(buffer);
  }
}

MPSPoolReference::MPSPoolReference(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  getIMPSAllocator()->retainPool(pool_);
}

MPSPoolReference::~MPSPoolReference() {
  getIMPSAllocator()->releasePool(pool_);
}

// The recordings of each pool, in the order of their captures.
static std::mutex recordings_mutex;
static auto& recordingsOfPools() {
  // never destroyed: graphs may outlive all statics
  static auto* recordings = new std::map<IMPSAllocator::CapturePoolId, std::list<const MPSOverwrites*>>();
  return *recordings;
}

MPSOverwrites::MPSOverwrites(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  std::lock_guard lock(recordings_mutex);
  auto& recordings = recordingsOfPools()[pool_];
  place_ = recordings.insert(recordings.end(), this);
}

MPSOverwrites::~MPSOverwrites() {
  std::lock_guard lock(recordings_mutex);
  const auto recordings = recordingsOfPools().find(pool_);
  recordings->second.erase(place_);
  if (recordings->second.empty()) {
    recordingsOfPools().erase(recordings);
  }
}

void MPSOverwrites::countReplay() const {
  std::lock_guard lock(recordings_mutex);
  const auto& recordings = recordingsOfPools().at(pool_);
  std::for_each(std::list<const MPSOverwrites*>::const_iterator(place_), recordings.end(), [](const auto* recording) {
    recording->count_++;
  });
}

} // namespace at::mps
