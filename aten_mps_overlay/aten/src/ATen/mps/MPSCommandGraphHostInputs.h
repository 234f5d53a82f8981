#pragma once

// What the host gives to the device at each replay. Plain C++.

#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSCommandGraphInputs.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <string>
#include <vector>

namespace at::mps {

/// What the host gives to a captured step: the content of a CPU tensor,
/// the state of a generator.
class MPSHostRefresh {
 public:
  virtual ~MPSHostRefresh() = default;
  /// Raises when write() could not do its work. Called for all refreshes of a
  /// graph before the first write.
  virtual void check() const = 0;
  /// Writes what eager would give to the device now. Called in the order of the
  /// capture, on the stream's queue.
  virtual void write(void* bytes) = 0;
};

/// A copy from a CPU tensor, which is read, and converted if need be, at the
/// time of the replay.
class MPSHostSource final : public MPSHostRefresh {
 public:
  /// `given` is the tensor that the caller wants copied; `source`, which may be
  /// a converted temporary, has the sizes, strides, dtype, and conjugate and
  /// negative bits of what the device gets.
  MPSHostSource(const TensorBase& given, const TensorBase& source);
  ~MPSHostSource() override;
  void check() const override;
  void write(void* bytes) override;
  /// Whether the memory holds other values than when the block copied it.
  bool isChanged() const;
  /// The block made the tensor: eager would make it again, and not see what the
  /// program writes to it.
  void setMadeInBlock() {
    is_made_in_block_ = true;
  }
  /// Whether nothing but graphs has the storage any more.
  static bool areOnlyOwnersOf(
      const c10::intrusive_ptr<c10::StorageImpl>& storage);

  const c10::Storage& storage() const {
    return storage_;
  }

 private:
  // How many references each one keeps to the storage of `given`.
  static constexpr size_t storage_references = 2;

  void writeTo(void* bytes) const;
  size_t hash() const;

  c10::Storage storage_;
  const void* data_;
  size_t nbytes_;
  // reads the storage as the caller's tensor did; an alias of its own, since
  // the caller may resize the tensor
  TensorBase alias_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  ScalarType dtype_;
  bool is_conj_;
  bool is_neg_;
  // to be copied as they are; 0 if the content must be converted or laid out
  // otherwise
  size_t plain_bytes_;
  // of the values that the block copied
  size_t hash_;
  bool is_made_in_block_ = false;
};

/// True if nothing has the storage of the CPU tensor, or only graphs that copy
/// from it.
bool isLeftToGraphs(const MPSUsedTensor& tensor);

/// A CPU tensor that a block read on the host, and what it held.
class MPSHostNumber {
 public:
  /// The storage must not be gone.
  explicit MPSHostNumber(MPSUsedTensor tensor)
      : was_(std::move(tensor)), bytes_(was_.bytes().vec()) {}

  /// True if it holds other values now. False if it is gone.
  bool isChanged() const;
  const MPSUsedTensor& tensor() const {
    return was_;
  }
  std::string describe() const;

 private:
  MPSUsedTensor was_;
  // As it lies in memory.
  std::vector<char> bytes_;
};

struct MPSHostInputs {
  // The block copies their memory to the device.
  std::vector<MPSUsedTensor> sources;
  // Likewise, but the tensor is gone and others have its storage.
  std::vector<MPSUsedTensor> source_storages;
  // The block read them on the host.
  std::vector<MPSHostNumber> numbers;
  // A replay raises, too, if the program has dropped one.
  bool check_liveness = false;

  /// Raises if one is not what it was.
  void check() const;
};

} // namespace at::mps
