#pragma once

// What a finished capture leaves behind: the steps and all that they need. Objective-C++ only.

#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSReplayPlan.h>
#include <ATen/mps/MPSStream.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace at::mps {

/// Lets isWatchedByGraph() know of a tensor while it lives.
class MPSWatchMark {
 public:
  explicit MPSWatchMark(const TensorImpl* tensor);
  MPSWatchMark(MPSWatchMark&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  MPSWatchMark& operator=(MPSWatchMark&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~MPSWatchMark();

 private:
  const TensorImpl* tensor_;
};

/// A tensor as it was recorded, to notice when its memory is no longer where it was.
class MPSWatchedTensor {
 public:
  /// With `check_liveness` it also notices when nobody has the storage any more.
  MPSWatchedTensor(const TensorBase& tensor, bool check_liveness);

  /// True when the tensor still lives but its storage was reallocated, shrunk or replaced.
  bool moved() const;
  /// True when nobody but graphs has the storage any more. Only if that is checked.
  bool gone() const;
  /// True when nothing can be noticed any more: nobody has the tensor, and whether somebody has the storage is not
  /// asked.
  bool forgotten() const;
  const void* data() const {
    return data_;
  }
  /// Says how the tensor was recorded and how it is now.
  std::string describe() const;

 private:
  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  MPSWatchMark mark_;
  std::optional<c10::weak_intrusive_ptr<StorageImpl>> storage_;
  const void* data_;
  size_t nbytes_;
  ScalarType dtype_;
  std::vector<int64_t> sizes_;
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
  /// Takes over one pin; returns false, and takes nothing, when the buffer is here already.
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
  explicit MPSPoolReference(MPSGraphPool pool);
  MPSPoolReference(const MPSPoolReference&) = delete;
  MPSPoolReference& operator=(const MPSPoolReference&) = delete;
  ~MPSPoolReference();

 private:
  const MPSGraphPool pool_;
};

/// The calls of a replay, and what they need; not changed once it is made.
struct MPSReplayInstance {
  // graph runs that were joined, in the order of the steps
  std::vector<MPSLinkedRun> linked;
  size_t link_microseconds = 0;
  // refers to the steps, and to `linked`
  std::optional<MPSReplayPlan> plan;
  // those of the graph runs, each once, and those that join them
  MPSRetained<NSArray*> executables;
  // those of the status checks, for handlers that may run after the graph is gone
  std::shared_ptr<const std::vector<std::string>> check_messages;
};

class MPSCapturedWork {
 public:
  std::vector<MPSCommandStep> steps;
  // by step: the operator that submitted it, or ""
  std::vector<std::string> operators;
  // memory that the steps read or write: blocks of the allocator, and host memory that is copied to the device
  MPSPinnedBuffers pinned;
  std::optional<MPSPoolReference> pool;
  // work of other graphs that was replayed inside the capture
  std::vector<std::shared_ptr<const MPSCapturedWork>> parts;
  std::vector<MPSStatusCheck> status_checks;
  // tensors that nobody else may write to until their content was looked at
  std::vector<Tensor> held;

  // what the replays are to do beyond their steps, one by one
  MPSReplayMechanisms mechanisms;

  /// Compiles the graph runs. Call once, when all steps are there.
  void compile(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor);
  /// Joins graph runs, at most `link_limit` to one executable (none with 0; warns once if the system can't), and lays
  /// down the calls of a replay. After compile(); again, if another instance is wanted.
  void instantiate(id<MTLDevice> device,
                   MPSGraphCompilationDescriptor* descriptor,
                   MPSGraphPool used_pool,
                   size_t link_limit);
  /// How many distinct ones the graph runs have.
  size_t executables() const {
    return executables_.get().count;
  }
  /// The last one that was made, or none.
  std::shared_ptr<const MPSReplayInstance> instance() const;
  /// Tensors that the steps use, as they were recorded.
  void watchTensors(std::vector<MPSWatchedTensor> tensors);
  /// Raises when a tensor that the steps use has moved, on the device or on the host. Needs an instance.
  void checkStorages() const;
  /// Encodes all steps. Must run on the stream's queue. Needs an instance.
  void encode(MPSStream* stream) const;

 private:
  void checkTensors() const;
  void link(MPSReplayInstance& instance,
            id<MTLDevice> device,
            MPSGraphCompilationDescriptor* descriptor,
            MPSGraphPool used_pool,
            size_t limit) const;
  void encodeForCapture(MPSStream* stream,
                        MPSGraphCapture* capture,
                        const MPSReplayInstance& instance,
                        MPSReplayWatch& watch,
                        id<MTLBuffer> staging) const;
  id<MTLBuffer> encodeStatusCopies(MPSStream* stream) const;

  // those of the graph runs, each once
  MPSRetained<NSArray*> executables_;
  mutable std::mutex instance_mutex_;
  std::shared_ptr<const MPSReplayInstance> instance_;
  // those that are forgotten are left out now and then
  mutable std::mutex watched_mutex_;
  mutable std::vector<MPSWatchedTensor> watched_;
};

/// Finds and compiles the stretches of graph runs; nothing if the system can't do that. MPSLinkedReplay.mm sets it.
using MPSRunLinker = std::optional<std::vector<MPSLinkedRun>> (*)(const MPSCapturedWork& work,
                                                                  const MPSReplayPlan& plan,
                                                                  id<MTLDevice> device,
                                                                  MPSGraphCompilationDescriptor* descriptor,
                                                                  MPSGraphPool pool,
                                                                  size_t limit);
extern MPSRunLinker run_linker;

/// Says what the work consists of, for debug dumps.
MPSCommandGraphDump describe(const MPSCapturedWork& work);

} // namespace at::mps
