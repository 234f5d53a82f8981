#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSGraphMemory.h>
#include <ATen/mps/MPSLockOrder.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <unordered_map>

namespace at::mps {

const StorageImpl* MPSWatchedTensor::storageOfLiving() const {
  const auto tensor = record_.living();
  return tensor && tensor->has_storage() ? tensor->storage().unsafeGetStorageImpl() : nullptr;
}

MPSPinnedBuffers::~MPSPinnedBuffers() {
  // at once: the scalars among them wait for the queue
  getIMPSAllocator()->unpin(std::vector<const void*>(buffers_.begin(), buffers_.end()));
}

MPSPoolReference::MPSPoolReference(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  getIMPSAllocator()->retainPool(pool_);
}

MPSPoolReference::~MPSPoolReference() {
  getIMPSAllocator()->releasePool(pool_);
}

// An operator may have been given a tensor that is not the one whose storage is replaced later: `.data` gives such
// ones. When one is gone, its storage is watched, unless another watched tensor has it.
static void watchStorages(std::vector<MPSWatchedTensor>& tensors) {
  std::unordered_set<const StorageImpl*> watched;
  for (const auto& tensor : tensors) {
    watched.insert(tensor.watchesStorage() ? tensor.record().recordedStorage() : tensor.storageOfLiving());
  }
  for (auto& tensor : tensors) {
    if (tensor.leavesStorage() && watched.insert(tensor.record().recordedStorage()).second) {
      tensor.watchStorage();
    }
  }
  tensors.erase(
      std::remove_if(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.leavesStorage(); }),
      tensors.end());
}

// By which two are known to be the same.
static const void* addressOf(const c10::VariableVersion& version) {
  const void* counter = nullptr;
  static_assert(sizeof(version) == sizeof(counter), "a VariableVersion is a pointer to its counter");
  std::memcpy(&counter, &version, sizeof(counter));
  return counter;
}

void MPSWrittenVersions::set(std::vector<c10::VariableVersion> versions) {
  std::unordered_set<const void*> known;
  versions.erase(std::remove_if(versions.begin(),
                                versions.end(),
                                [&](const auto& version) { return !known.insert(addressOf(version)).second; }),
                 versions.end());
  versions.erase(std::remove_if(versions.begin(), versions.end(), [](const auto& version) { return version.unique(); }),
                 versions.end());
  versions_ = std::move(versions);
}

void MPSWrittenVersions::bump() const {
  for (auto& version : versions_) {
    version.bump();
  }
}

// The recordings of each pool, in the order of their captures.
static MPSMutex<MPSLockRank::LAST> recordings_mutex;
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

MPSWatchedGradient::MPSWatchedGradient(const TensorPtr& tensor, Kind kind)
    : tensor_(tensor), gradient_(tensor->grad().getIntrusivePtr()), kind_(kind) {}

bool MPSWatchedGradient::replaced() const {
  const auto tensor = tensor_.lock();
  if (!tensor || tensor->grad().getIntrusivePtr() == gradient_) {
    return false;
  }
  return kind_ == Kind::WRITTEN || (kind_ == Kind::MADE && tensor->grad().defined());
}

void MPSWatchedGradient::giveBack() const {
  const auto tensor = tensor_.lock();
  if (tensor && kind_ != Kind::WRITTEN && tensor->grad().getIntrusivePtr() != gradient_) {
    tensor->mutable_grad() = Tensor(gradient_);
  }
}

std::string MPSWatchedGradient::describe() const {
  std::ostringstream text;
  if (const auto tensor = tensor_.lock()) {
    text << "the .grad of the " << typeMetaToScalarType(tensor->dtype()) << " tensor of shape " << tensor->sizes()
         << (tensor->grad().defined() ? " was replaced" : " was set to None");
  }
  return text.str();
}

void MPSWatchedTensors::set(std::vector<MPSWatchedTensor> tensors,
                            std::vector<MPSWatchedGradient> gradients,
                            MPSHostInputs host_inputs) {
  std::lock_guard<std::mutex> lock(mutex_);
  tensors_ = std::move(tensors);
  gradients_ = std::move(gradients);
  host_inputs_ = std::move(host_inputs);
  watchStorages(tensors_);
  forget();
}

void MPSWatchedTensors::forget() const {
  tensors_.erase(
      std::remove_if(tensors_.begin(), tensors_.end(), [](const auto& tensor) { return tensor.forgotten(); }),
      tensors_.end());
}

void MPSWatchedTensors::check() const {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t forgotten = 0;
  bool leaves_storage = false;
  // Most of the time of a check is waiting for memory.
  constexpr size_t ahead = 8;
  for (const auto i : c10::irange(tensors_.size())) {
    if (i + ahead < tensors_.size()) {
      tensors_[i + ahead].record().prefetch();
    }
    const auto& tensor = tensors_[i];
    forgotten += tensor.forgotten();
    leaves_storage |= tensor.leavesStorage();
    TORCH_CHECK(!tensor.gone(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". It existed before the capture, which was begun with check_input_liveness=True: keep a reference to "
                "each input and update it in place (copy_(), fill_(), ...) instead of replacing it, or capture again.");
    TORCH_CHECK(!tensor.changed(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". A replay uses tensors as they were in the capture. Write new values in place (copy_(), fill_(), "
                "...), or capture again.");
  }
  for (const auto& gradient : gradients_) {
    TORCH_CHECK(!gradient.replaced(),
                "torch.mps graph replay: ",
                gradient.describe(),
                " after the capture, and the graph would write to the old one, which nothing reads. Use "
                "zero_grad(set_to_none=False), call zero_grad() in the captured block, or capture again.");
  }
  for (const auto& source : host_inputs_.sources) {
    TORCH_CHECK(!source.isChanged(),
                "torch.mps graph replay: ",
                source.describe(),
                " ",
                source.describeChange(),
                ", and a replay would copy from the old memory. Write new values in place (copy_(), fill_(), ...), or "
                "capture again.");
  }
  for (const auto& number : host_inputs_.numbers) {
    TORCH_CHECK(!number.isChanged(),
                "torch.mps graph replay: ",
                number.describe(),
                ". The host read it in the capture, and a replay uses the old value. Move it to the device before the "
                "capture, or capture again.");
  }
  if (leaves_storage) {
    watchStorages(tensors_);
  }
  if (leaves_storage || 2 * forgotten > tensors_.size()) {
    forget();
  }
}

} // namespace at::mps
