#pragma once

// Tensors as a captured block found them. Plain C++.

#include <ATen/core/TensorBase.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace at::mps {

/// Says of a tensor that it is watched, while this lives.
class MPSWatchMark {
 public:
  explicit MPSWatchMark(const TensorImpl* tensor);
  MPSWatchMark(MPSWatchMark&& other) noexcept
      : tensor_(std::exchange(other.tensor_, nullptr)) {}
  MPSWatchMark& operator=(MPSWatchMark&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~MPSWatchMark();

  static bool isOn(const TensorImpl* tensor);

 private:
  const TensorImpl* tensor_;
};

/// A tensor of any device, its memory and its metadata as they were when this
/// was made. Refers to tensor and storage weakly.
class MPSTensorRecord {
 public:
  using TensorPtr = c10::intrusive_ptr<TensorImpl, UndefinedTensorImpl>;

  explicit MPSTensorRecord(const TensorBase& tensor);

  /// Says where it was used first: "aten::mul at train.py:3 (step)".
  void setUse(std::string use) {
    use_ = std::move(use);
  }
  /// One that is undefined if the tensor is gone.
  TensorPtr living() const {
    return tensor_.lock();
  }
  bool isGone() const {
    return tensor_.expired();
  }
  /// Whether nothing has the storage, or only graphs that copy from it.
  bool isStorageGone() const;
  const StorageImpl* recordedStorage() const {
    return storage_._unsafe_get_target();
  }
  const void* data() const {
    return data_;
  }
  ScalarType dtype() const {
    return typeMetaToScalarType(dtype_);
  }
  /// Where in the storage its elements lie. The storage must not be gone.
  c10::ArrayRef<char> bytes() const;
  /// Whether the tensor lives and its memory is elsewhere, or less.
  bool isMoved() const;
  /// Whether the tensor lives and its memory or its metadata is another one.
  bool isChanged() const;
  /// Whether the storage is elsewhere, less, or gone.
  bool isStorageMoved() const;
  /// "the Float tensor of shape [2, 3] with a storage of 24 bytes, first used
  /// by aten::mul at train.py:3 (step),"
  std::string describe() const;
  /// "now has shape [6]"
  std::string describeChange() const;

 private:
  bool isAt(const StorageImpl* storage) const;
  bool isMemoryOf(const TensorImpl& tensor) const;

  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  MPSWatchMark mark_;
  c10::weak_intrusive_ptr<StorageImpl> storage_;
  const void* data_;
  size_t nbytes_;
  int64_t offset_;
  c10::DimVector sizes_;
  c10::DimVector strides_;
  caffe2::TypeMeta dtype_;
  bool is_conj_;
  bool is_neg_;
  bool is_on_host_;
  std::string use_;
};

/// A CPU tensor that a block read on the host, and what it held.
class MPSHostNumber {
 public:
  /// The storage must not be gone.
  explicit MPSHostNumber(MPSTensorRecord record);

  /// Whether it holds other values now. False if it is gone.
  bool isChanged() const;
  std::string describe() const;

 private:
  MPSTensorRecord record_;
  // as it lies in memory
  std::vector<char> bytes_;
};

/// CPU tensors that a block took from the program.
struct MPSHostInputs {
  // of which it copies memory to the device
  std::vector<MPSTensorRecord> sources;
  // likewise: the tensor is gone, others have its storage
  std::vector<MPSTensorRecord> source_storages;
  // that it read on the host
  std::vector<MPSHostNumber> numbers;
};

} // namespace at::mps
