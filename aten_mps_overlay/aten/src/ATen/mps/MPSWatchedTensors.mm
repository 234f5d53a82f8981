#include <ATen/mps/MPSWatchedTensors.h>

#include <algorithm>
#include <unordered_set>

namespace at::mps {

const StorageImpl* MPSWatchedTensor::storageOfLiving() const {
  const auto tensor = record_.living();
  return tensor && tensor->has_storage() ? tensor->storage().unsafeGetStorageImpl() : nullptr;
}

// An operator may get an alias, such as `x.data`. The alias dies, and `x` is moved later. So the storage of a dead
// alias is watched, unless another watched tensor has it.
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

void MPSWatchedTensors::set(std::vector<MPSWatchedTensor> tensors, MPSHostInputs host_inputs) {
  std::lock_guard<std::mutex> lock(mutex_);
  tensors_ = std::move(tensors);
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
  for (const auto& tensor : tensors_) {
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
  const auto check_source = [](const MPSTensorRecord& source, bool is_changed) {
    TORCH_CHECK(!is_changed,
                "torch.mps graph replay: ",
                source.describe(),
                " ",
                source.describeChange(),
                ", and a replay would copy from the old memory. Write new values in place (copy_(), fill_(), ...), or "
                "capture again.");
  };
  for (const auto& source : host_inputs_.sources) {
    check_source(source, source.isChanged());
  }
  for (const auto& source : host_inputs_.source_storages) {
    check_source(source, source.isStorageGone());
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
