#pragma once

// Bytes that the host gives to the device at each replay of a graph. Plain
// C++.

#include <ATen/core/TensorBase.h>
#include <c10/core/Storage.h>

#include <cstddef>
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
  /// Whether nothing but graphs has the storage any more.
  static bool areOnlyOwnersOf(
      const c10::intrusive_ptr<c10::StorageImpl>& storage);

  const c10::Storage& storage() const {
    return storage_;
  }

  /// How many references each one keeps to the storage of `given`.
  static constexpr size_t storage_references = 2;

 private:
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
};

} // namespace at::mps
