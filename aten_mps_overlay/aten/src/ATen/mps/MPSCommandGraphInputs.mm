#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraphInputs.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace at::mps {

// Flags in a fingerprint: what it was made of. Without any, only the storage of the tensor is compared.
static constexpr uint64_t kMetadata = 1;
static constexpr uint64_t kRequiresGrad = 2;
static constexpr uint64_t kFlags = kMetadata | kRequiresGrad;

// Reads fields alone, so it runs no Python for a subclass. A tensor that dies meanwhile keeps these fields, but not
// those of autograd: with kRequiresGrad the caller has a reference.
static uint64_t fingerprintOf(const TensorImpl& tensor, uint64_t flags) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15;
  constexpr c10::DispatchKeySet bits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  uint64_t hash = 0;
  if (flags != 0) {
    const auto sizes = tensor.sizes_default();
    const auto* strides = tensor.strides_default().data();
    hash = ((tensor.key_set() & bits).raw_repr() | static_cast<uint64_t>(typeMetaToScalarType(tensor.dtype()))) * odd;
    hash = (hash ^ tensor.storage_offset_default()) * odd;
    for (const auto i : c10::irange(sizes.size())) {
      hash = (hash ^ sizes[i]) * odd;
      hash = (hash ^ strides[i]) * odd;
    }
    if (flags & kRequiresGrad) {
      hash = (hash ^ tensor.requires_grad()) * odd;
    }
  }
  return (hash & ~kFlags) | flags;
}

MPSUsedTensor::MPSUsedTensor(const TensorBase& tensor)
    : tensor_(tensor.getIntrusivePtr()),
      storage_(tensor.storage().getWeakStorageImpl()),
      data_(tensor.storage().data()),
      nbytes_(tensor.storage().nbytes()),
      offset_(tensor.unsafeGetTensorImpl()->storage_offset_default()),
      sizes_(tensor.unsafeGetTensorImpl()->sizes_default()),
      strides_(tensor.unsafeGetTensorImpl()->strides_default()),
      dtype_(tensor.scalar_type()),
      is_on_host_(tensor.storage().device_type() == kCPU),
      requires_grad_(tensor.requires_grad()),
      fingerprint_(fingerprintOf(*tensor.unsafeGetTensorImpl(), kMetadata)) {}

void MPSUsedTensor::compareRequiresGrad() {
  const auto now = living();
  if (now && now->requires_grad() == requires_grad_) {
    fingerprint_ = fingerprintOf(*now, kFlags);
  }
}

static bool isStorageOf(const TensorImpl& tensor, const MPSUsedTensor& was) {
  return tensor.has_storage() && was.isAt(*tensor.storage().unsafeGetStorageImpl());
}

bool MPSUsedTensor::isMoved() const {
  const auto now = living();
  return now && !isStorageOf(*now, *this);
}

bool MPSUsedTensor::isChanged() const {
  const auto now = living();
  return now && (!isStorageOf(*now, *this) || fingerprintOf(*now, fingerprint_ & kFlags) != fingerprint_);
}

bool MPSUsedTensor::isStorageMoved() const {
  const auto now = livingStorage();
  return now && !isAt(*now);
}

c10::ArrayRef<char> MPSUsedTensor::bytes() const {
  int64_t length = std::find(sizes_.begin(), sizes_.end(), 0) == sizes_.end() ? 1 : 0;
  for (const auto i : c10::irange(length > 0 ? sizes_.size() : 0)) {
    length += (sizes_[i] - 1) * strides_[i];
  }
  const auto* first = static_cast<const char*>(data_) + offset_ * elementSize(dtype_);
  return {first, static_cast<size_t>(length) * elementSize(dtype_)};
}

std::string MPSUsedTensor::describe() const {
  std::ostringstream text;
  text << "the " << dtype_ << (is_on_host_ ? " CPU" : "") << " tensor of shape " << IntArrayRef(sizes_)
       << " with a storage of " << nbytes_ << " bytes";
  if (place_) {
    const auto line = programLine(place_->frame);
    text << ", first used by " << place_->op << (line.empty() ? "" : " at ") << line << ",";
  }
  return text.str();
}

// Reads fields alone, as fingerprintOf() does: the caller may hold the lock of a capture.
std::string MPSUsedTensor::describeChange() const {
  std::ostringstream text;
  const auto now = living();
  if (!now) {
    text << "has other memory now, or no longer exists";
  } else if (!now->has_storage()) {
    text << "has no storage now";
  } else if (!isStorageOf(*now, *this)) {
    text << "now has shape " << now->sizes_default() << " and another storage of " << now->storage().nbytes()
         << " bytes";
  } else if (typeMetaToScalarType(now->dtype()) != dtype_) {
    text << "now has dtype " << typeMetaToScalarType(now->dtype());
  } else if (now->sizes_default() != IntArrayRef(sizes_)) {
    text << "now has shape " << now->sizes_default();
  } else if (now->strides_default() != IntArrayRef(strides_)) {
    text << "now has strides " << now->strides_default() << " instead of " << IntArrayRef(strides_);
  } else if (now->storage_offset_default() != offset_) {
    text << "now begins at element " << now->storage_offset_default() << " of its storage instead of " << offset_;
  } else if ((fingerprint_ & kRequiresGrad) && now->requires_grad() != requires_grad_) {
    text << "now has requires_grad=" << (requires_grad_ ? "False" : "True");
  } else {
    text << "now has another conjugate or negative bit";
  }
  return text.str();
}

std::string MPSUsedTensor::describeLoss() const {
  return c10::str(
      "torch.mps graph replay: ",
      describe(),
      " is gone: the program dropped it or replaced it by a new tensor, which a replay does not read. Write new values "
      "in place (copy_(), fill_(), ...), or capture again. If its values are to stay as they are, keep the tensor, or "
      "capture with check_input_liveness=False.");
}

bool MPSCommandGraphInputs::Tensor::isChanged(bool needs_storage) const {
  if (was.isGone()) {
    // An operator may be given an alias, such as `x.data`. The alias dies, and `x` is moved later.
    return kind != Kind::RESULT && (was.isStorageMoved() || (needs_storage && was.isStorageGone()));
  }
  return kind == Kind::INPUT ? was.isChanged() : was.isMoved();
}

MPSCommandGraphInputs::Tensor* MPSCommandGraphInputs::find(const TensorImpl* tensor) {
  const auto place = places_.find(tensor);
  return place == places_.end() ? nullptr : &tensors_[place->second];
}

MPSCommandGraphInputs::Tensor& MPSCommandGraphInputs::add(const TensorBase& tensor, Kind kind, bool needs_name) {
  places_.emplace(tensor.unsafeGetTensorImpl(), tensors_.size());
  if (needs_name) {
    unnamed_.push_back(tensors_.size());
  }
  if (kind == Kind::INPUT) {
    storages_.insert(tensor.storage().unsafeGetStorageImpl());
  }
  tensors_.push_back({MPSUsedTensor(tensor), kind});
  tensors_.back().is_view = tensor.is_view();
  const auto owner = (tensors_.back().is_view ? tensor._base() : tensor).getIntrusivePtr();
  const auto& counter = owner->version_counter();
  const uint32_t first = counter.enabled() ? counter.current_version() : 0; // An inference tensor has none.
  versions_.push_back({MPSUsedTensor::WeakPtr(owner), counter, first, kind == Kind::RESULT});
  return tensors_.back();
}

void MPSCommandGraphInputs::nameUses(const std::shared_ptr<const MPSProgramPlace>& place) {
  for (const auto position : unnamed_) {
    tensors_[position].was.setPlace(place);
  }
  unnamed_.clear();
}

std::vector<MPSCommandGraphInputs::Tensor> MPSCommandGraphInputs::takeChanged() {
  freed_ = IMPSAllocator::pinned_free_epoch.load();
  places_.clear();
  storages_.clear();
  unnamed_.clear();
  // By owner: whether `written_` has the counter.
  ska::flat_hash_map<const TensorImpl*, bool> written;
  for (const auto& version : versions_) {
    const auto& counter = version.counter;
    if (counter.enabled() && (version.is_of_result || counter.current_version() != version.first)) {
      written.emplace(version.owner._unsafe_get_target(), false);
    }
  }
  for (const auto i : c10::irange(tensors_.size())) {
    const auto owner = written.find(versions_[i].owner._unsafe_get_target());
    tensors_[i].is_written = owner != written.end();
    // A counter is of no use when nothing has the tensor, and no node of autograd its memory.
    const bool is_over = tensors_[i].was.isGone() && tensors_[i].was.isStorageGone();
    if (tensors_[i].is_written && !is_over && !std::exchange(owner->second, true)) {
      written_.push_back(versions_[i].counter);
    }
  }
  versions_.clear();
  std::vector<Tensor> changed;
  const auto take = [&](const auto& tensor) {
    const bool is_changed = tensor.isChanged();
    if (is_changed) {
      changed.push_back(tensor);
    }
    return is_changed;
  };
  tensors_.erase(std::remove_if(tensors_.begin(), tensors_.end(), take), tensors_.end());
  return changed;
}

static bool leavesStorage(const MPSCommandGraphInputs::Tensor& tensor) {
  return !tensor.is_view && !tensor.was.isStorageGone();
}

void MPSCommandGraphInputs::finish(bool check_liveness, bool ignores_requires_grad) {
  check_liveness_ = check_liveness;
  for (auto& tensor : tensors_) {
    if (tensor.has_gradients && tensor.kind == Kind::INPUT && !ignores_requires_grad) {
      tensor.was.compareRequiresGrad();
    }
  }
  // One tensor of each storage is enough, and one that left it.
  ska::flat_hash_set<const StorageImpl*> storages;
  ska::flat_hash_set<const StorageImpl*> left;
  for (const auto& tensor : tensors_) {
    if (!tensor.was.isGone()) {
      storages.insert(tensor.was.storageImpl());
      left.insert(tensor.was.storageImpl());
    }
  }
  const auto is_over = [&](const Tensor& tensor) {
    const bool is_gone = tensor.was.isGone();
    const bool may_go = tensor.was.isStorageGone() && (!check_liveness || tensor.is_of_graph);
    return is_gone &&
        (tensor.kind == Kind::RESULT || may_go ||
         !(leavesStorage(tensor) ? left : storages).insert(tensor.was.storageImpl()).second);
  };
  tensors_.erase(std::remove_if(tensors_.begin(), tensors_.end(), is_over), tensors_.end());
  entries_ = std::vector<Entry>(tensors_.size());
  for (const auto i : c10::irange(tensors_.size())) {
    const auto& tensor = tensors_[i];
    entries_[i].tensor = tensor.was.impl();
    entries_[i].storage = tensor.was.storageImpl();
    entries_[i].fingerprint = tensor.kind == Kind::INPUT ? tensor.was.fingerprint() : 0;
    if (!tensor.is_counted) {
      uncounted_.push_back(i);
    }
  }
  noteGone();
  if (check_liveness) {
    freed_ = ~uint64_t{0}; // The first replay looks for what the block itself dropped.
  }
}

// Nothing of a tensor that is gone can change any more, but for the storage that it left to others.
void MPSCommandGraphInputs::noteGone() const {
  for (const auto i : c10::irange(tensors_.size())) {
    auto& entry = entries_[i];
    // One that another thread is freeing still has its storage. A later replay notes it.
    if (entry.state == State::HERE && tensors_[i].was.isGone() && !entry.tensor->unsafe_storage()) {
      entry.state = leavesStorage(tensors_[i]) ? State::LEFT_STORAGE : State::GONE;
    }
  }
}

bool MPSCommandGraphInputs::isUnchanged() const {
  constexpr size_t ahead = 8;
  const Entry* const entries = entries_.data();
  const size_t count = entries_.size();
  for (size_t i = 0; i < count; i++) {
    const auto* next = reinterpret_cast<const char*>(entries[std::min(i + ahead, count - 1)].tensor);
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
    __builtin_prefetch(next + 128);
    const auto& entry = entries[i];
    if (entry.state.load(std::memory_order_relaxed) != State::HERE) {
      continue;
    }
    // A tensor that is dead or dies meanwhile has no storage.
    if (entry.tensor->unsafe_storage().unsafeGetStorageImpl() != entry.storage) {
      return false;
    }
    const uint64_t flags = entry.fingerprint & kFlags;
    c10::intrusive_ptr<TensorImpl> alive;
    if (flags & kRequiresGrad) {
      alive = c10::intrusive_ptr<TensorImpl>::reclaim(c10::raw::weak_intrusive_ptr::lock(entry.tensor));
      if (!alive) {
        return false;
      }
    }
    if (flags != 0 && fingerprintOf(*entry.tensor, flags) != entry.fingerprint) {
      return false;
    }
  }
  return std::none_of(uncounted_.begin(), uncounted_.end(), [&](size_t i) { return isGone(i) || isChanged(i); });
}

bool MPSCommandGraphInputs::isGone(size_t i) const {
  const auto& tensor = tensors_[i];
  return check_liveness_ && !tensor.is_of_graph && tensor.kind != Kind::RESULT && tensor.was.isGone() &&
      tensor.was.isStorageGone();
}

bool MPSCommandGraphInputs::isChanged(size_t i) const {
  return tensors_[i].isChanged(entries_[i].state == State::LEFT_STORAGE);
}

void MPSCommandGraphInputs::check() const {
  const uint64_t freed = IMPSAllocator::pinned_free_epoch;
  if (C10_LIKELY(freed == freed_ && isUnchanged())) {
    return;
  }
  size_t i = 0;
  while (i < tensors_.size() && !isGone(i) && !isChanged(i)) {
    i++;
  }
  if (i == tensors_.size()) {
    noteGone();
    freed_ = freed;
    return;
  }
  const auto& was = tensors_[i].was;
  TORCH_CHECK(!isGone(i), was.describeLoss());
  TORCH_CHECK(
      false,
      "torch.mps graph replay: ",
      was.describe(),
      " ",
      was.describeChange(),
      ". A replay uses tensors as they were in the capture. Write new values in place (copy_(), fill_(), ...), or "
      "capture again.");
}

void MPSCommandGraphInputs::countReplay() const {
  for (auto& version : written_) {
    version.bump();
  }
}

} // namespace at::mps
