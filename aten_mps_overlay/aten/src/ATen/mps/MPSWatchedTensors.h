#pragma once

// The tensors that a graph uses. Plain C++.

#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSTensorRecord.h>

#include <mutex>
#include <string>
#include <vector>

namespace at::mps {

/// A tensor that a graph uses, to notice when it is not what it was.
class MPSWatchedTensor {
 public:
  enum class Kind {
    // made in the capture, which makes it again
    RESULT,
    // existed before the capture
    INPUT,
    // likewise, and it is noticed when nothing has the storage any more
    LIVE_INPUT,
  };

  /// `is_from_before`: the tensor itself, not only its memory, existed before
  /// the capture.
  MPSWatchedTensor(
      const TensorBase& tensor,
      Kind kind,
      bool is_from_before = true)
      : record_(tensor), kind_(kind), is_from_before_(is_from_before) {}

  void setUse(const std::string& use) {
    record_.setUse(use);
  }
  /// True when the tensor still lives but its storage was reallocated, shrunk
  /// or replaced. Once the tensor is gone and its storage is watched: true when
  /// the storage moved or was freed.
  bool moved() const {
    return watches_storage_ && record_.isGone() ? record_.isStorageMoved()
                                                : record_.isMoved();
  }
  /// Likewise, and when a tensor from before the capture has another shape,
  /// dtype or place in its storage.
  bool changed() const {
    if (record_.isGone()) {
      return moved() || (leavesStorage() && record_.isStorageMoved());
    }
    return is_from_before_ ? record_.isChanged() : moved();
  }
  /// True when the storage of a LIVE_INPUT was freed.
  bool gone() const {
    return kind_ == Kind::LIVE_INPUT && record_.isStorageGone();
  }
  /// True when nothing can be noticed any more: the tensor is gone, and
  /// the storage is not watched.
  bool forgotten() const {
    return kind_ != Kind::LIVE_INPUT && !watches_storage_ && record_.isGone();
  }
  /// True for an input that is gone while others use its storage.
  bool leavesStorage() const {
    return !isResult() && !watches_storage_ && record_.isGone() &&
        !record_.isStorageGone();
  }
  bool watchesStorage() const {
    return watches_storage_;
  }
  /// Watches the storage in place of the tensor, which is gone.
  void watchStorage() {
    watches_storage_ = true;
  }
  /// Of a tensor that lives, nullptr of one that is gone.
  const StorageImpl* storageOfLiving() const;
  const MPSTensorRecord& record() const {
    return record_;
  }
  bool isResult() const {
    return kind_ == Kind::RESULT;
  }
  /// Says how the tensor was recorded and how it is now.
  std::string describe() const {
    return record_.describe() + " " +
        (gone() ? "is gone" : record_.describeChange());
  }

 private:
  MPSTensorRecord record_;
  Kind kind_;
  bool is_from_before_;
  bool watches_storage_ = false;
};

/// The tensors that a graph uses, as they were recorded.
class MPSWatchedTensors {
 public:
  void set(
      std::vector<MPSWatchedTensor> tensors,
      MPSHostInputs host_inputs = {});
  /// Raises when one of them is not what it was, or is gone.
  void check() const;

 private:
  void forget() const;

  mutable std::mutex mutex_;
  // those that are forgotten are left out now and then
  mutable std::vector<MPSWatchedTensor> tensors_;
  MPSHostInputs host_inputs_;
};

} // namespace at::mps
