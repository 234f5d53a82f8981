#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/record_function.h>
#include <c10/core/DynamicCast.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <sstream>
#include <unordered_map>

#ifndef AT_PER_OPERATOR_HEADERS
#include <ATen/Functions.h>
#else
#include <ATen/ops/from_blob.h>
#endif

namespace at::mps {

// A permuted layout is plain, too, if both have it: what the device gets has the strides of the source.
static size_t bytesIfPlain(const TensorBase& given, const TensorBase& source) {
  const bool is_plain = given.scalar_type() == source.scalar_type() && given.sizes() == source.sizes() &&
      given.strides() == source.strides() && given.is_non_overlapping_and_dense();
  return is_plain ? given.nbytes() : 0;
}

// How many sources have each storage.
static std::mutex sources_mutex;
static std::unordered_map<const c10::StorageImpl*, size_t>& sourcesOfStorages() {
  // never destroyed: graphs may outlive all statics
  static auto* sources = new std::unordered_map<const c10::StorageImpl*, size_t>();
  return *sources;
}

MPSHostSource::MPSHostSource(const TensorBase& given, const TensorBase& source)
    : storage_(given.storage()),
      data_(given.storage().data()),
      nbytes_(given.storage().nbytes()),
      alias_(given.getIntrusivePtr()->shallow_copy_and_detach(/*version_counter=*/0,
                                                              /*allow_tensor_metadata_change=*/true)),
      sizes_(source.sizes().vec()),
      strides_(source.strides().vec()),
      dtype_(source.scalar_type()),
      is_conj_(source.is_conj()),
      is_neg_(source.is_neg()),
      plain_bytes_(bytesIfPlain(given, source)),
      hash_(hash()) {
  std::lock_guard lock(sources_mutex);
  sourcesOfStorages()[storage_.unsafeGetStorageImpl()]++;
}

MPSHostSource::~MPSHostSource() {
  std::lock_guard lock(sources_mutex);
  const auto position = sourcesOfStorages().find(storage_.unsafeGetStorageImpl());
  if (--position->second == 0) {
    sourcesOfStorages().erase(position);
  }
}

bool MPSHostSource::areOnlyOwnersOf(const c10::intrusive_ptr<c10::StorageImpl>& storage) {
  std::lock_guard lock(sources_mutex);
  const auto position = sourcesOfStorages().find(storage.get());
  return position != sourcesOfStorages().end() && storage.use_count() == 1 + position->second * storage_references;
}

void MPSHostSource::check() const {
  TORCH_CHECK(storage_.data() == data_ && storage_.nbytes() >= nbytes_,
              "torch.mps graph replay: the storage of a ",
              alias_.scalar_type(),
              " CPU tensor of shape ",
              alias_.sizes(),
              ", which the graph copies to the device, had ",
              nbytes_,
              " bytes in the capture and has ",
              storage_.nbytes(),
              " now. Write new values in place (copy_(), fill_(), ...) instead of resizing it, or capture again.");
  TORCH_CHECK(
      !is_made_in_block_ || !isChanged(),
      "torch.mps graph replay: a ",
      alias_.scalar_type(),
      " CPU tensor of shape ",
      alias_.sizes(),
      " that the block made and copied to the device was written to after the capture, and eager mode would make "
      "it again. Make it before the capture, or capture again.");
}

bool MPSHostSource::isChanged() const {
  return storage_.data() != data_ || storage_.nbytes() < nbytes_ || hash() != hash_;
}

size_t MPSHostSource::hash() const {
  if (plain_bytes_ > 0) {
    return std::hash<std::string_view>()({static_cast<const char*>(alias_.const_data_ptr()), plain_bytes_});
  }
  std::string bytes(at::detail::computeStorageNbytes(sizes_, strides_, elementSize(dtype_)), '\0');
  writeTo(bytes.data());
  return std::hash<std::string>()(bytes);
}

void MPSHostSource::write(void* bytes) {
  writeTo(bytes);
}

void MPSHostSource::writeTo(void* bytes) const {
  if (plain_bytes_ > 0) {
    // The bits are copied as stored. The device tensor has the conjugate or negative flag itself.
    std::memcpy(bytes, alias_.const_data_ptr(), plain_bytes_);
    return;
  }
  // This runs on the queue. A dispatch mode would take the GIL, and the thread that holds the GIL may be waiting for
  // the queue.
  const c10::impl::ExcludeDispatchKeyGuard no_modes(
      c10::DispatchKeySet({c10::DispatchKey::Python,
                           c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode}));
  const DisableRecordFunctionGuard no_observers;
  Tensor destination = at::from_blob(bytes, sizes_, strides_, at::device(kCPU).dtype(dtype_));
  destination._set_conj(is_conj_);
  destination._set_neg(is_neg_);
  // copy_() of the CPU ignores the negative bit where it converts.
  destination.copy_(Tensor(alias_).resolve_neg());
}

bool isLeftToGraphs(const MPSUsedTensor& tensor) {
  const auto storage = tensor.livingStorage();
  return !storage || MPSHostSource::areOnlyOwnersOf(storage);
}

bool MPSHostNumber::isChanged() const {
  if (was_.isChanged()) {
    return true;
  }
  // Another thread must not free the memory while it is compared.
  const auto storage = was_.livingStorage();
  return storage && !MPSHostSource::areOnlyOwnersOf(storage) && was_.isAt(*storage) &&
      was_.bytes() != c10::ArrayRef<char>(bytes_);
}

static void writeValue(std::ostream& text, const char* bytes, ScalarType dtype) {
  if (isComplexType(dtype)) {
    text << c10::fetch_and_cast<c10::complex<double>>(dtype, bytes);
  } else if (isFloatingType(dtype)) {
    text << c10::fetch_and_cast<double>(dtype, bytes);
  } else {
    text << c10::fetch_and_cast<int64_t>(dtype, bytes);
  }
}

std::string MPSHostNumber::describe() const {
  if (was_.isChanged()) {
    return was_.describe() + " " + was_.describeChange();
  }
  std::ostringstream text;
  text << was_.describe() << " holds ";
  if (bytes_.size() == elementSize(was_.dtype())) {
    writeValue(text, was_.bytes().data(), was_.dtype());
    text << " instead of ";
    writeValue(text, bytes_.data(), was_.dtype());
  } else {
    text << "other values";
  }
  return text.str();
}

void MPSHostInputs::check() const {
  const auto check_source = [](const MPSUsedTensor& source, bool is_changed) {
    TORCH_CHECK(!is_changed,
                "torch.mps graph replay: ",
                source.describe(),
                " ",
                source.describeChange(),
                ", and a replay would copy from the old memory. Write new values in place (copy_(), fill_(), ...), or "
                "capture again.");
  };
  const auto check_living = [&](const MPSUsedTensor& tensor) {
    TORCH_CHECK(!check_liveness || !tensor.isGone() || !isLeftToGraphs(tensor), tensor.describeLoss());
  };
  for (const auto& source : sources) {
    check_living(source);
    check_source(source, source.isChanged());
  }
  for (const auto& source : source_storages) {
    check_source(source, isLeftToGraphs(source));
  }
  for (const auto& number : numbers) {
    check_living(number.tensor());
    TORCH_CHECK(!number.isChanged(),
                "torch.mps graph replay: ",
                number.describe(),
                ". The host read it in the capture, and a replay uses the old value. Move it to the device before the "
                "capture, or capture again.");
  }
}

} // namespace at::mps
