#pragma once

// The tensors that a captured block used, and how they were. Plain C++.

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/DimVector.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace at::mps {

/// Where the program used a tensor. The text is made only for an error.
struct MPSProgramPlace {
  std::string op;
  std::shared_ptr<c10::GatheredContext> frame;
};

/// A tensor of any device as a captured block found it. Refers to the tensor
/// and to its storage weakly.
class MPSUsedTensor {
 public:
  using TensorPtr = c10::intrusive_ptr<TensorImpl, UndefinedTensorImpl>;
  using WeakPtr = c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl>;

  explicit MPSUsedTensor(const TensorBase& tensor);

  void setPlace(std::shared_ptr<const MPSProgramPlace> place) {
    place_ = std::move(place);
  }
  /// Lets a change of requires_grad count, unless there was one already.
  void compareRequiresGrad();
  TensorImpl* impl() const {
    return tensor_._unsafe_get_target();
  }
  const StorageImpl* storageImpl() const {
    return storage_._unsafe_get_target();
  }
  /// Undefined if the tensor is gone.
  TensorPtr living() const {
    return tensor_.lock();
  }
  bool isGone() const {
    return tensor_.expired();
  }
  /// Null if the storage is gone.
  c10::intrusive_ptr<StorageImpl> livingStorage() const {
    return storage_.lock();
  }
  bool isStorageGone() const {
    return storage_.expired();
  }
  const void* data() const {
    return data_;
  }
  ScalarType dtype() const {
    return dtype_;
  }
  /// What isChanged() compares beside the memory.
  uint64_t fingerprint() const {
    return fingerprint_;
  }
  /// Where the elements lie in the storage, which must not be gone.
  c10::ArrayRef<char> bytes() const;
  /// True if the storage has the memory that the tensor had.
  bool isAt(const StorageImpl& storage) const {
    return storage.data() == data_ && storage.nbytes() >= nbytes_;
  }
  // True if the tensor (the storage) is alive and has other memory, or less:
  bool isMoved() const;
  bool isStorageMoved() const;
  /// True if the tensor is alive and has other memory or other metadata.
  bool isChanged() const;
  /// "the Float tensor of shape [2, 3] with a storage of 24 bytes, first used
  /// by aten::mul at train.py:3 (step),". Takes the interpreter's lock.
  std::string describe() const;
  /// "now has shape [6]"
  std::string describeChange() const;
  /// The error of a replay if the program has dropped it.
  std::string describeLoss() const;

 private:
  WeakPtr tensor_;
  c10::weak_intrusive_ptr<StorageImpl> storage_;
  const void* data_;
  size_t nbytes_;
  int64_t offset_;
  c10::DimVector sizes_;
  c10::DimVector strides_;
  ScalarType dtype_;
  bool is_on_host_;
  bool requires_grad_;
  uint64_t fingerprint_;
  std::shared_ptr<const MPSProgramPlace> place_;
};

/// The tensors of the device that a block used. A capture adds them. Each
/// replay checks that they are as they were, and bumps the version counters of
/// those that the block wrote.
///
/// For all storages a replay compares one number: memory that a graph uses is
/// pinned or lies in the pool of a capture, and the allocator counts how often
/// such memory is freed. For each tensor that is alive it compares a
/// fingerprint of the metadata. It looks at the tensors themselves only if a
/// comparison fails.
class MPSCommandGraphInputs {
 public:
  enum class Kind {
    // The block made the tensor and its memory, and a replay makes them again.
    RESULT,
    // The block made the tensor; its memory existed before.
    VIEW,
    // The tensor existed before the block.
    INPUT,
  };

  struct Tensor {
    MPSUsedTensor was;
    Kind kind;
    // The allocator counts when the memory is freed.
    bool is_counted = false;
    // A graph allocated the memory. Its replays write new values, whether or
    // not the program has the tensor.
    bool is_of_graph = false;
    // An operator that records gradients was given the tensor.
    bool has_gradients = false;
    // A view of a tensor that autograd knows.
    bool is_view = false;
    // The block wrote the memory. Known when takeChanged() was called.
    bool is_written = false;

    /// With `needs_storage` it counts, too, if the storage is gone.
    bool isChanged(bool needs_storage = false) const;
  };

  // For a capture:
  /// Null if the tensor is not known.
  Tensor* find(const TensorImpl* tensor);
  /// True if an input has the storage.
  bool hasStorage(const StorageImpl* storage) const {
    return storages_.count(storage) > 0;
  }
  /// For a tensor that is not known. With `needs_name`, nameUses() will name
  /// its use.
  Tensor& add(const TensorBase& tensor, Kind kind, bool needs_name = false);
  bool hasUnnamed() const {
    return !unnamed_.empty();
  }
  void nameUses(const std::shared_ptr<const MPSProgramPlace>& place);
  /// Removes the tensors that the block changed. Nothing may be added later.
  std::vector<Tensor> takeChanged();
  const std::vector<Tensor>& tensors() const {
    return tensors_;
  }
  /// Prepares the replays. With `check_liveness` a replay raises, too, if
  /// the program has dropped the memory of an input.
  void finish(bool check_liveness, bool ignores_requires_grad = false);

  // For a replay:
  /// Raises if a tensor is not what it was. Any thread may call it at any time.
  /// If it holds the interpreter's lock, no program changes a tensor meanwhile.
  void check() const;
  /// Tells autograd that the written tensors were changed.
  void countReplay() const;

 private:
  // The version counter of a tensor, and what it was when the tensor was seen
  // first. A view has the counter of its base, which is the owner.
  struct Version {
    MPSUsedTensor::WeakPtr owner;
    c10::VariableVersion counter;
    uint32_t first;
    bool is_of_result;
  };

  enum class State : uint8_t {
    HERE,
    GONE,
    // The tensor is gone and left its storage to a tensor that nobody saw, such
    // as the `x` of `x.data`. If that one drops the storage, it has another.
    LEFT_STORAGE,
  };

  // What a replay compares. The weak references of `tensors_` keep the
  // addresses from being used again.
  struct Entry {
    TensorImpl* tensor = nullptr;
    const StorageImpl* storage = nullptr;
    uint64_t fingerprint = 0;
    std::atomic<State> state{State::HERE};
  };

  bool isUnchanged() const;
  bool isGone(size_t i) const;
  bool isChanged(size_t i) const;
  void noteGone() const;

  ska::flat_hash_map<const TensorImpl*, size_t> places_;
  ska::flat_hash_set<const StorageImpl*> storages_;
  // Of `tensors_`, until takeChanged() is called.
  std::vector<Version> versions_;
  std::vector<size_t> unnamed_;
  bool check_liveness_ = false;
  mutable std::vector<c10::VariableVersion> written_;
  std::vector<Tensor> tensors_;
  // Of the tensors, in their order.
  mutable std::vector<Entry> entries_;
  // Positions of the tensors whose memory is not counted.
  std::vector<size_t> uncounted_;
  // How often memory had been freed when all tensors were as they had been.
  mutable std::atomic<uint64_t> freed_{0};
};

} // namespace at::mps
