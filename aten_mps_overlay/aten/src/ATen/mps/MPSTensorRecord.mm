#include <ATen/Dispatch_v2.h>
#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/mps/MPSLockOrder.h>
#include <ATen/mps/MPSTensorRecord.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <unordered_map>

namespace at::mps {

// How many watch each tensor; weak references keep the addresses from being used again.
static MPSMutex<MPSLockRank::LAST> watched_mutex;
static std::unordered_map<const TensorImpl*, size_t>& watchedTensors() {
  // never destroyed: graphs may outlive all statics
  static auto* tensors = new std::unordered_map<const TensorImpl*, size_t>();
  return *tensors;
}

MPSWatchMark::MPSWatchMark(const TensorImpl* tensor) : tensor_(tensor) {
  std::lock_guard lock(watched_mutex);
  watchedTensors()[tensor]++;
}

MPSWatchMark::~MPSWatchMark() {
  if (!tensor_) {
    return;
  }
  std::lock_guard lock(watched_mutex);
  const auto position = watchedTensors().find(tensor_);
  if (--position->second == 0) {
    watchedTensors().erase(position);
  }
}

bool MPSWatchMark::isOn(const TensorImpl* tensor) {
  std::lock_guard lock(watched_mutex);
  return watchedTensors().count(tensor) > 0;
}

MPSTensorRecord::MPSTensorRecord(const TensorBase& tensor)
    : tensor_(tensor.getIntrusivePtr()),
      mark_(tensor.unsafeGetTensorImpl()),
      storage_(tensor.storage().getWeakStorageImpl()),
      data_(tensor.storage().data()),
      nbytes_(tensor.storage().nbytes()),
      offset_(tensor.storage_offset()),
      sizes_(tensor.sizes()),
      strides_(tensor.strides()),
      dtype_(tensor.dtype()),
      is_conj_(tensor.is_conj()),
      is_neg_(tensor.is_neg()),
      is_on_host_(tensor.storage().device_type() == kCPU) {}

bool MPSTensorRecord::isAt(const StorageImpl* storage) const {
  return storage->data() == data_ && storage->nbytes() >= nbytes_;
}

bool MPSTensorRecord::isMemoryOf(const TensorImpl& tensor) const {
  return tensor.has_storage() && isAt(tensor.storage().unsafeGetStorageImpl());
}

bool MPSTensorRecord::isMoved() const {
  const auto now = living();
  return now && !isMemoryOf(*now);
}

static bool isGone(const c10::intrusive_ptr<StorageImpl>& storage, bool is_on_host) {
  return !storage || (is_on_host && MPSHostSource::areOnlyOwnersOf(storage));
}

bool MPSTensorRecord::isStorageGone() const {
  return mps::isGone(storage_.lock(), is_on_host_);
}

bool MPSTensorRecord::isStorageMoved() const {
  const auto now = storage_.lock();
  return mps::isGone(now, is_on_host_) || !isAt(now.get());
}

bool MPSTensorRecord::isChanged() const {
  const auto now = living();
  if (!now) {
    return false; // its owner let go of it; the graph keeps the memory
  }
  return !isMemoryOf(*now) || now->storage_offset() != offset_ || now->sizes() != IntArrayRef(sizes_) ||
      now->strides() != IntArrayRef(strides_) || now->dtype() != dtype_ || now->is_conj() != is_conj_ ||
      now->is_neg() != is_neg_;
}

std::string MPSTensorRecord::describe() const {
  std::ostringstream text;
  text << "the " << typeMetaToScalarType(dtype_) << (is_on_host_ ? " CPU" : "") << " tensor of shape "
       << IntArrayRef(sizes_) << " with a storage of " << nbytes_ << " bytes"
       << (use_.empty() ? "" : ", first used by " + use_ + ",");
  return text.str();
}

std::string MPSTensorRecord::describeChange() const {
  std::ostringstream text;
  const auto now = living();
  if (!now) {
    text << "has other memory now, or no longer exists";
  } else if (!now->has_storage()) {
    text << "has no storage now";
  } else if (!isMemoryOf(*now)) {
    text << "now has shape " << now->sizes() << " and another storage of " << now->storage().nbytes() << " bytes";
  } else if (now->dtype() != dtype_) {
    text << "now has dtype " << typeMetaToScalarType(now->dtype());
  } else if (now->sizes() != IntArrayRef(sizes_)) {
    text << "now has shape " << now->sizes();
  } else if (now->strides() != IntArrayRef(strides_)) {
    text << "now has strides " << now->strides() << " instead of " << IntArrayRef(strides_);
  } else if (now->storage_offset() != offset_) {
    text << "now begins at element " << now->storage_offset() << " of its storage instead of " << offset_;
  } else {
    text << "now has another conjugate or negative bit";
  }
  return text.str();
}

c10::ArrayRef<char> MPSTensorRecord::bytes() const {
  int64_t length = std::find(sizes_.begin(), sizes_.end(), 0) == sizes_.end() ? 1 : 0;
  for (const auto i : c10::irange(length > 0 ? sizes_.size() : 0)) {
    length += (sizes_[i] - 1) * strides_[i];
  }
  const auto* first = static_cast<const char*>(data_) + offset_ * dtype_.itemsize();
  return {first, static_cast<size_t>(length) * dtype_.itemsize()};
}

MPSHostNumber::MPSHostNumber(MPSTensorRecord record) : record_(std::move(record)), bytes_(record_.bytes().vec()) {}

bool MPSHostNumber::isChanged() const {
  return record_.isChanged() || (!record_.isStorageMoved() && record_.bytes() != c10::ArrayRef<char>(bytes_));
}

template <typename T>
static void writeValueAs(std::ostream& text, const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  if constexpr (std::is_integral_v<T>) {
    text << static_cast<int64_t>(value); // not a character
  } else {
    text << value;
  }
}

static void writeValue(std::ostream& text, const char* bytes, ScalarType dtype) {
  AT_DISPATCH_V2(dtype,
                 "writeValue",
                 AT_WRAP([&] { writeValueAs<scalar_t>(text, bytes); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 kBool,
                 kHalf,
                 kBFloat16);
}

std::string MPSHostNumber::describe() const {
  if (record_.isChanged()) {
    return record_.describe() + " " + record_.describeChange();
  }
  std::ostringstream text;
  text << record_.describe() << " holds ";
  if (bytes_.size() == elementSize(record_.dtype())) {
    writeValue(text, record_.bytes().data(), record_.dtype());
    text << " instead of ";
    writeValue(text, bytes_.data(), record_.dtype());
  } else {
    text << "other values";
  }
  return text.str();
}

} // namespace at::mps
