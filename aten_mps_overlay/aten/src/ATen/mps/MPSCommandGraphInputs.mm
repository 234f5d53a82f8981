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

// Reads fields alone, so it runs no Python for a subclass. A tensor that dies meanwhile keeps these fields, but not
// those of autograd: with kRequiresGrad the caller has a reference.
static uint64_t fingerprintOf(const TensorImpl& tensor, uint64_t flags) {
  uint64_t hash = 0;
  const auto mix = [&](uint64_t value) { hash = (((hash << 29) | (hash >> 35)) ^ value) * 0x9e3779b97f4a7c15; };
  if (flags != 0) {
    const auto keys = tensor.key_set();
    mix(static_cast<uint64_t>(typeMetaToScalarType(tensor.dtype())) << 2 |
        static_cast<uint64_t>(keys.has(c10::DispatchKey::Conjugate)) << 1 | keys.has(c10::DispatchKey::Negative));
    mix(tensor.storage_offset_default());
    for (const auto size : tensor.sizes_default()) {
      mix(size);
    }
    for (const auto stride : tensor.strides_default()) {
      mix(stride);
    }
    if (flags & kRequiresGrad) {
      mix(tensor.requires_grad());
    }
  }
  return (hash & ~(kMetadata | kRequiresGrad)) | flags;
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
    fingerprint_ = fingerprintOf(*now, kMetadata | kRequiresGrad);
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
  return now &&
      (!isStorageOf(*now, *this) || fingerprintOf(*now, fingerprint_ & (kMetadata | kRequiresGrad)) != fingerprint_);
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

std::string MPSUsedTensor::describeChange() const {
  std::ostringstream text;
  const auto now = living();
  if (!now) {
    text << "has other memory now, or no longer exists";
  } else if (!now->has_storage()) {
    text << "has no storage now";
  } else if (!isStorageOf(*now, *this)) {
    text << "now has shape " << now->sizes() << " and another storage of " << now->storage().nbytes() << " bytes";
  } else if (typeMetaToScalarType(now->dtype()) != dtype_) {
    text << "now has dtype " << typeMetaToScalarType(now->dtype());
  } else if (now->sizes() != IntArrayRef(sizes_)) {
    text << "now has shape " << now->sizes();
  } else if (now->strides() != IntArrayRef(strides_)) {
    text << "now has strides " << now->strides() << " instead of " << IntArrayRef(strides_);
  } else if (now->storage_offset() != offset_) {
    text << "now begins at element " << now->storage_offset() << " of its storage instead of " << offset_;
  } else if ((fingerprint_ & kRequiresGrad) && now->requires_grad() != requires_grad_) {
    text << "now has requires_grad=" << (requires_grad_ ? "False" : "True");
  } else {
    text << "now has another conjugate or negative bit";
  }
  return text.str();
}

bool MPSCommandGraphInputs::Tensor::isChanged() const {
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
  freed_ = IMPSAllocator::pinned_free_epoch;
  places_.clear();
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

void MPSCommandGraphInputs::finish(bool check_liveness, bool ignores_requires_grad) {
  check_liveness_ = check_liveness;
  for (auto& tensor : tensors_) {
    if (tensor.has_gradients && tensor.kind == Kind::INPUT && !ignores_requires_grad) {
      tensor.was.compareRequiresGrad();
    }
  }
  update();
  if (check_liveness) {
    freed_ = ~uint64_t{0}; // The first replay looks for what the block itself dropped.
  }
}

// Forgets the tensors of which nothing can change any more, and takes the fingerprints of the others.
void MPSCommandGraphInputs::update() const {
  // One tensor of each storage, and one that needs it.
  ska::flat_hash_set<const StorageImpl*> storages;
  ska::flat_hash_set<const StorageImpl*> needed;
  for (const auto& tensor : tensors_) {
    if (!tensor.was.isGone()) {
      storages.insert(tensor.was.storageImpl());
      needed.insert(tensor.was.storageImpl());
    }
  }
  const auto is_over = [&](Tensor& tensor) {
    if (!tensor.was.isGone()) {
      return false;
    }
    tensor.needs_storage |= !tensor.is_view && !tensor.was.isStorageGone();
    const bool may_go = !check_liveness_ || tensor.is_of_graph;
    return tensor.kind == Kind::RESULT || (may_go && tensor.was.isStorageGone()) ||
        !(tensor.needs_storage ? needed : storages).insert(tensor.was.storageImpl()).second;
  };
  tensors_.erase(std::remove_if(tensors_.begin(), tensors_.end(), is_over), tensors_.end());
  entries_.clear();
  uncounted_.clear();
  for (const auto i : c10::irange(tensors_.size())) {
    const auto& tensor = tensors_[i];
    if (!tensor.was.isGone()) {
      const uint64_t fingerprint = tensor.kind == Kind::INPUT ? tensor.was.fingerprint() : 0;
      entries_.push_back({tensor.was.impl(), tensor.was.storageImpl(), fingerprint});
    }
    if (!tensor.is_counted) {
      uncounted_.push_back(i);
    }
  }
}

bool MPSCommandGraphInputs::isUnchanged() const {
  constexpr size_t ahead = 8;
  for (const auto i : c10::irange(entries_.size())) {
    const auto* next = reinterpret_cast<const char*>(entries_[std::min(i + ahead, entries_.size() - 1)].tensor);
    for (size_t line = 0; line < sizeof(TensorImpl); line += 64) {
      __builtin_prefetch(next + line);
    }
    const auto& entry = entries_[i];
    // A tensor that is dead or dies meanwhile has no storage.
    if (entry.tensor->unsafe_storage().unsafeGetStorageImpl() != entry.storage) {
      return false;
    }
    const uint64_t flags = entry.fingerprint & (kMetadata | kRequiresGrad);
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
  return std::none_of(uncounted_.begin(), uncounted_.end(), [&](size_t i) {
    const auto storage = tensors_[i].was.livingStorage();
    return !storage || !tensors_[i].was.isAt(*storage);
  });
}

void MPSCommandGraphInputs::check() const {
  std::optional<MPSUsedTensor> changed;
  bool is_gone = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t freed = IMPSAllocator::pinned_free_epoch;
    if (C10_LIKELY(freed == freed_ && isUnchanged())) {
      return;
    }
    for (const auto& tensor : tensors_) {
      is_gone = check_liveness_ && !tensor.is_of_graph && tensor.kind != Kind::RESULT && tensor.was.isGone() &&
          tensor.was.isStorageGone();
      if (is_gone || tensor.isChanged()) {
        changed = tensor.was;
        break;
      }
    }
    if (!changed) {
      update();
      freed_ = freed;
      return;
    }
  }
  // The lock is not held, since descriptions take that of the interpreter.
  TORCH_CHECK(
      !is_gone,
      "torch.mps graph replay: ",
      changed->describe(),
      " is gone: the program dropped it or replaced it by a new tensor, which a replay does not read. Write new values "
      "in place (copy_(), fill_(), ...), or capture again. If its values are to stay as they are, keep the tensor, or "
      "capture with check_input_liveness=False.");
  TORCH_CHECK(
      false,
      "torch.mps graph replay: ",
      changed->describe(),
      " ",
      changed->describeChange(),
      ". A replay uses tensors as they were in the capture. Write new values in place (copy_(), fill_(), ...), or "
      "capture again.");
}

void MPSCommandGraphInputs::countReplay() const {
  for (auto& version : written_) {
    version.bump();
  }
}

} // namespace at::mps
