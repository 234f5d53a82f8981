#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSGraphMemory.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <unordered_map>

namespace at::mps {

// How many watch each tensor; weak references keep the addresses from being used again.
static std::mutex watched_mutex;
static std::unordered_map<const TensorImpl*, size_t>& watchedTensors() {
  // never destroyed: graphs may outlive all statics
  static auto* tensors = new std::unordered_map<const TensorImpl*, size_t>();
  return *tensors;
}

MPSWatchMark::MPSWatchMark(const TensorImpl* tensor) : tensor_(tensor) {
  std::lock_guard<std::mutex> lock(watched_mutex);
  watchedTensors()[tensor]++;
}

MPSWatchMark::~MPSWatchMark() {
  if (!tensor_) {
    return;
  }
  std::lock_guard<std::mutex> lock(watched_mutex);
  const auto position = watchedTensors().find(tensor_);
  if (--position->second == 0) {
    watchedTensors().erase(position);
  }
}

bool MPSWatchMark::isOn(const TensorImpl* tensor) {
  std::lock_guard<std::mutex> lock(watched_mutex);
  return watchedTensors().count(tensor) > 0;
}

MPSWatchedTensor::MPSWatchedTensor(const TensorBase& tensor, Kind kind)
    : tensor_(tensor.getIntrusivePtr()),
      mark_(tensor.unsafeGetTensorImpl()),
      storage_(tensor.storage().getWeakStorageImpl()),
      kind_(kind),
      data_(tensor.storage().data()),
      nbytes_(tensor.storage().nbytes()),
      dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes().vec()) {}

bool MPSWatchedTensor::gone() const {
  return kind_ == Kind::LIVE_INPUT && storage_.expired();
}

bool MPSWatchedTensor::forgotten() const {
  return kind_ != Kind::LIVE_INPUT && !watches_storage_ && tensor_.expired();
}

bool MPSWatchedTensor::leavesStorage() const {
  return kind_ != Kind::RESULT && !watches_storage_ && tensor_.expired() && !storage_.expired();
}

const StorageImpl* MPSWatchedTensor::storageOfLiving() const {
  const auto tensor = tensor_.lock();
  return tensor && tensor->has_storage() ? tensor->storage().unsafeGetStorageImpl() : nullptr;
}

bool MPSWatchedTensor::moved() const {
  if (const auto tensor = tensor_.lock()) {
    return !tensor->has_storage() || tensor->storage().data() != data_ || tensor->storage().nbytes() < nbytes_;
  }
  if (!watches_storage_) {
    return false; // its owner let go of it; the graph keeps the memory
  }
  const auto storage = storage_.lock();
  return !storage || storage->data() != data_ || storage->nbytes() < nbytes_;
}

std::string MPSWatchedTensor::describe() const {
  std::ostringstream text;
  text << "the " << dtype_ << " tensor of shape " << IntArrayRef(sizes_) << ", recorded with a storage of " << nbytes_
       << " bytes, ";
  const auto tensor = tensor_.lock();
  if (gone()) {
    text << "is gone";
  } else if (!tensor) {
    text << "has other memory now or is gone";
  } else if (!tensor->has_storage()) {
    text << "has no storage now";
  } else {
    text << "now has shape " << tensor->sizes() << " and another storage of " << tensor->storage().nbytes() << " bytes";
  }
  return text.str();
}

MPSPinnedBuffers::~MPSPinnedBuffers() {
  const auto* allocator = getIMPSAllocator();
  for (const auto* buffer : buffers_) {
    allocator->unpin(buffer);
  }
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
    watched.insert(tensor.watchesStorage() ? tensor.recordedStorage() : tensor.storageOfLiving());
  }
  for (auto& tensor : tensors) {
    if (tensor.leavesStorage() && watched.insert(tensor.recordedStorage()).second) {
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
static std::mutex recordings_mutex;
static auto& recordingsOfPools() {
  // never destroyed: graphs may outlive all statics
  static auto* recordings = new std::map<IMPSAllocator::CapturePoolId, std::list<const MPSOverwrites*>>();
  return *recordings;
}

MPSOverwrites::MPSOverwrites(IMPSAllocator::CapturePoolId pool) : pool_(pool) {
  std::lock_guard<std::mutex> lock(recordings_mutex);
  auto& recordings = recordingsOfPools()[pool_];
  place_ = recordings.insert(recordings.end(), this);
}

MPSOverwrites::~MPSOverwrites() {
  std::lock_guard<std::mutex> lock(recordings_mutex);
  const auto recordings = recordingsOfPools().find(pool_);
  recordings->second.erase(place_);
  if (recordings->second.empty()) {
    recordingsOfPools().erase(recordings);
  }
}

void MPSOverwrites::countReplay() const {
  std::lock_guard<std::mutex> lock(recordings_mutex);
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

void MPSWatchedTensors::set(std::vector<MPSWatchedTensor> tensors, std::vector<MPSWatchedGradient> gradients) {
  std::lock_guard<std::mutex> lock(mutex_);
  tensors_ = std::move(tensors);
  gradients_ = std::move(gradients);
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
  for (const auto& tensor : tensors_) {
    forgotten += tensor.forgotten();
    leaves_storage |= tensor.leavesStorage();
    TORCH_CHECK(!tensor.gone(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". It existed before the capture, which was begun with check_input_liveness=True: keep a reference to "
                "each input and update it in place (copy_(), fill_(), ...) instead of replacing it, or capture again.");
    TORCH_CHECK(!tensor.moved(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". A graph reads and writes the memory that its tensors had during capture: update tensors in place "
                "(copy_(), fill_(), ...) instead of resizing or replacing them, or capture again.");
  }
  for (const auto& gradient : gradients_) {
    TORCH_CHECK(!gradient.replaced(),
                "torch.mps graph replay: ",
                gradient.describe(),
                " after the capture, and the graph would write to the old one, which nothing reads. Use "
                "zero_grad(set_to_none=False), call zero_grad() in the captured block, or capture again.");
  }
  if (leaves_storage) {
    watchStorages(tensors_);
  }
  if (leaves_storage || 2 * forgotten > tensors_.size()) {
    forget();
  }
}

} // namespace at::mps
