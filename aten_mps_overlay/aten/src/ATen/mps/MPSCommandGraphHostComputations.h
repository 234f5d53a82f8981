#pragma once

// What the operators of a captured block do on the CPU, where a replay does not
// run them. Plain C++.

#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/record_function.h>
#include <c10/core/Storage.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace at::mps {

/// The CPU memory that an operator is given.
struct MPSHostAccess {
  using WeakTensor = c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl>;

  struct Use {
    WeakTensor tensor;
    c10::weak_intrusive_ptr<StorageImpl> storage;
    bool is_written = false;
    // of the program, wrapped in a tensor
    bool is_number = false;
    // C++ made it, and it may last, as a buffer of TorchScript does
    bool may_last = false;
    // made inside of an operator that calls this one
    bool is_temporary = false;
    // an operator that this one calls is given it, too
    bool is_passed_on = false;
  };

  /// Called before the operator runs, while its inputs are known. `caller` is
  /// that of the operator that calls it, or nullptr.
  MPSHostAccess(const RecordFunction& function, MPSHostAccess* caller);

  bool has(const StorageImpl* storage) const;

  MPSHostAccess* const caller;
  std::vector<Use> uses;
  bool has_device_input = false;
  // the program chooses by it what it does
  const bool is_condition;
};

/// Where the content of the CPU tensors of a block comes from. A replay may
/// copy a tensor that existed before the block, which it reads again, or one
/// that is the same in each run of the block. It must not copy one that an
/// operator in the block computed from others, drew, or wrote to.
class MPSHostComputations {
 public:
  /// A storage whose content an operator made.
  struct Change {
    c10::weak_intrusive_ptr<StorageImpl> storage;
    bool is_computed = false;
    bool is_written = false;
    bool is_temporary = false;
    // what existed before the block that it was computed from
    std::vector<c10::weak_intrusive_ptr<StorageImpl>> roots;
  };

  // Those that return a string return the reason for which the capture fails,
  // or "".

  /// An operator is about to run.
  std::string begin(
      const RecordFunction& function,
      const MPSHostAccess& access);
  /// An operator has run. What it did not copy to the device it may have read.
  std::string end(const RecordFunction& function, const MPSHostAccess& access);
  /// What an operator that has run made of the storages that it had or gives.
  std::vector<Change> changesOf(
      const RecordFunction& function,
      const MPSHostAccess& access) const;
  /// `by` names the operator that the program called, and `line` where.
  std::string apply(
      const std::vector<Change>& changes,
      const std::string& by,
      const std::string& line);
  /// A kernel gets a copy of the tensor's value.
  std::string readInKernel(const TensorBase& tensor);
  /// A captured copy to the device reads the tensor.
  std::string useSource(const TensorBase& given);
  bool isMadeInBlock(const c10::Storage& storage) const;
  /// The block has ended.
  std::string endBlock() const;

  /// Whether tensors were seen that nameUses() has not named.
  bool hasUnnamed() const;
  void nameUses(const std::shared_ptr<const MPSProgramPlace>& place);
  /// What must be as it was when the block ended.
  MPSHostInputs takeInputs();

 private:
  enum class Origin { OUTSIDE, CONSTANT, COMPUTED };

  struct Known {
    // keeps the address from being used again
    c10::weak_intrusive_ptr<StorageImpl> storage;
    Origin origin;
    // not PyTorch's own memory
    bool is_foreign = false;
    // what computed it, in words
    std::string reason;
    // a captured copy reads it
    bool is_copied = false;
    // existed before the block, which has read it on the host
    bool is_read = false;
    // existed before the block, which writes to it
    bool is_written = false;
    // what existed before the block that it was computed from
    std::unordered_set<const StorageImpl*> roots;
  };

  // A tensor that an operator was given, and that existed before the block.
  struct Given {
    MPSUsedTensor record;
    bool is_read = false;
  };

  const Known* find(const StorageImpl* storage) const;
  bool isComputed(const MPSHostAccess::Use& use) const;
  std::string read(const MPSHostAccess::Use& use, bool is_condition);
  std::string readValue(const MPSHostAccess::Use& use);
  static std::string whyRead(const Known& known, bool is_condition);
  Known& add(
      const c10::weak_intrusive_ptr<StorageImpl>& storage,
      Origin origin);

  mutable std::mutex mutex_;
  std::unordered_map<const StorageImpl*, Known> known_;
  std::unordered_map<const TensorImpl*, Given> given_;
  std::vector<const TensorImpl*> unnamed_;
};

} // namespace at::mps
