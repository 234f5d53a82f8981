#pragma once

// The memory that a graph uses: what it keeps, and what it watches.

#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSTensorRecord.h>

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
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
  /// or replaced. If its storage is watched in its place: when that was, or is
  /// gone.
  bool moved() const {
    return watches_storage_ && record_.isGone() ? record_.isStorageMoved()
                                                : record_.isMoved();
  }
  /// Likewise, and when a tensor from before the capture has another shape,
  /// dtype or place in its storage.
  bool changed() const {
    return is_from_before_ && !record_.isGone() ? record_.isChanged() : moved();
  }
  /// True when only graphs have the storage of a LIVE_INPUT any more.
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

/// A tensor whose `.grad` a graph writes.
class MPSWatchedGradient {
 public:
  using TensorPtr = MPSTensorRecord::TensorPtr;

  enum class Kind {
    // existed before the capture, which wrote to it
    WRITTEN,
    // the capture made it: it becomes the gradient again after `.grad = None`
    MADE,
    // likewise, and the capture used it up, as a step of an optimizer does: it
    // becomes the gradient again in place of any other
    USED,
  };

  MPSWatchedGradient(const TensorPtr& tensor, Kind kind);

  /// True when the tensor still lives but has another gradient, or none, in a
  /// way that giveBack() does not undo.
  bool replaced() const;
  /// Makes what the graph writes the gradient of the tensor again. Off the
  /// queue.
  void giveBack() const;
  std::string describe() const;

 private:
  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  TensorPtr gradient_;
  Kind kind_;
};

/// The tensors that a graph uses, as they were recorded.
class MPSWatchedTensors {
 public:
  void set(
      std::vector<MPSWatchedTensor> tensors,
      std::vector<MPSWatchedGradient> gradients = {},
      MPSHostInputs host_inputs = {});
  /// Raises when one of them is not what it was, or is gone, or when a gradient
  /// was replaced.
  void check() const;
  void giveBackGradients() const {
    for (const auto& gradient : gradients_) {
      gradient.giveBack();
    }
  }

 private:
  void forget() const;

  mutable std::mutex mutex_;
  // those that are forgotten are left out now and then
  mutable std::vector<MPSWatchedTensor> tensors_;
  std::vector<MPSWatchedGradient> gradients_;
  MPSHostInputs host_inputs_;
};

/// The version counters of tensors that a graph writes. Autograd compares them
/// to notice that a tensor that it saved was changed.
class MPSWrittenVersions {
 public:
  /// Takes counters, of which several may be the same. Leaves out those that
  /// nothing else has.
  void set(std::vector<c10::VariableVersion> versions);
  void bump() const;

 private:
  mutable std::vector<c10::VariableVersion> versions_;
};

/// Keeps blocks of the allocator away from others until it is destroyed.
class MPSPinnedBuffers {
 public:
  MPSPinnedBuffers() = default;
  MPSPinnedBuffers(const MPSPinnedBuffers&) = delete;
  MPSPinnedBuffers& operator=(const MPSPinnedBuffers&) = delete;
  ~MPSPinnedBuffers();

  bool contains(const void* buffer) const {
    return buffers_.count(buffer) > 0;
  }
  /// Takes over one pin; returns false, and takes nothing, when the buffer is
  /// here already.
  bool adopt(const void* buffer) {
    return buffers_.insert(buffer).second;
  }
  const std::unordered_set<const void*>& buffers() const {
    return buffers_;
  }

 private:
  std::unordered_set<const void*> buffers_;
};

/// Keeps the memory of a pool until it is destroyed.
class MPSPoolReference {
 public:
  explicit MPSPoolReference(IMPSAllocator::CapturePoolId pool);
  MPSPoolReference(const MPSPoolReference&) = delete;
  MPSPoolReference& operator=(const MPSPoolReference&) = delete;
  ~MPSPoolReference();

 private:
  const IMPSAllocator::CapturePoolId pool_;
};

/// Counts the replays that overwrite memory of a recording: its own, and those
/// of earlier recordings of the same pool, whose free memory it uses.
class MPSOverwrites {
 public:
  /// Follows all recordings of the pool that exist.
  explicit MPSOverwrites(IMPSAllocator::CapturePoolId pool);
  MPSOverwrites(const MPSOverwrites&) = delete;
  MPSOverwrites& operator=(const MPSOverwrites&) = delete;
  ~MPSOverwrites();

  size_t count() const {
    return count_;
  }
  /// Counts a replay of the recording.
  void countReplay() const;

 private:
  const IMPSAllocator::CapturePoolId pool_;
  std::list<const MPSOverwrites*>::const_iterator place_;
  mutable std::atomic<size_t> count_{0};
};

} // namespace at::mps
