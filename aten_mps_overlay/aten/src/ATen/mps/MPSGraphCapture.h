#pragma once

// A capture that is underway on the stream. Objective-C++ only; see MPSCommandGraph.h for the interface.

#include <ATen/core/Generator.h>
#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSHostComputations.h>
#include <ATen/mps/MPSLockOrder.h>
#include <ATen/mps/MPSRecording.h>
#include <ATen/mps/MPSRecordingEncoder.h>
#include <ATen/mps/MPSSubmission.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::mps {

class MPSGraphCapture final : public MPSKernelRecorder {
 public:
  /// On the stream's queue.
  MPSGraphCapture(bool freeze_host_reads,
                  MPSGraphPool pool,
                  std::vector<Generator> generators,
                  bool check_input_liveness);
  ~MPSGraphCapture() override;

  bool freezesHostReads() const {
    return freeze_host_reads_;
  }

  /// Records the calling thread from now on. Off the queue.
  void recordThisThread();
  /// Records no thread any more. On any thread; on the queue only when a graph is destroyed there.
  void recordNoThread();

  // Called by the stream, on its queue.
  /// True if what is encoded now is part of the capture.
  bool records();
  /// Returns a retained stand-in for `encoder`.
  id<MTLComputeCommandEncoder> newRecordingEncoder(id<MTLComputeCommandEncoder> encoder);
  void recordGraphRun(MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets);
  void recordCopy(MPSCopyStep copy);
  void recordStep(MPSCommandStep step);
  void recordKernel(MPSKernelStep step) override;
  void useBuffer(id<MTLBuffer> buffer) override;
  std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) override;
  void refuse(const std::string& reason) override;

  // Called from any thread.
  enum class Seen {
    GIVEN, // an argument of an operator. It is from before the block, unless its memory was allocated in the block
    RETURNED, // a result of an operator
    BOUND, // bound outside of operators; from before the block, as GIVEN
  };
  void watchTensor(const TensorBase& tensor, Seen seen = Seen::BOUND);
  /// Whether tensors were seen that nameUses() has not named.
  bool hasUnnamed();
  /// Says where they were used: "aten::mul at train.py:3 (step)".
  void nameUses(const std::string& use);
  /// Asks for the lines of the program that submit the steps.
  void wantLines() {
    wants_lines_ = true;
  }
  /// Whether there are steps without a line, though they are wanted.
  bool lacksLines();
  void setLines(const std::string& line);
  void keepTensor(const TensorBase& tensor) {
    keepBuffer(tensor.storage().data());
  }
  /// Lets each replay check a status that earlier work writes into the tensor.
  void checkStatus(const Tensor& status, const std::string& message);
  void keepPart(std::shared_ptr<const MPSRecording> part);
  /// True when a replay is to draw from the generator again.
  bool isRegistered(const GeneratorImpl* generator) const;
  /// Counts numbers drawn from a generator (and 1) and the steps by which a replay draws them again (and -1).
  void countDraws(int difference) {
    unrecorded_draws_ += difference;
  }
  /// Lets the kernel that takes these bytes by setBytes: take new ones, of the same length, in each replay. Without
  /// such a kernel the capture fails.
  void refreshBytes(std::vector<uint8_t> bytes, std::shared_ptr<MPSHostRefresh> refresh);
  /// True the first time: host reads are frozen, which deserves a warning.
  bool isFirstHostRead() {
    return !std::exchange(warned_host_read_, true);
  }

  MPSHostComputations& hostComputations() {
    return host_computations_;
  }
  /// Makes the capture fail, with a reason that says where.
  void refuseAt(const std::string& reason);

  /// Observes no more allocations. On the queue; the destructor calls it too.
  void stop();
  /// Compiles the graph runs and hands over what was recorded, or raises with the first reason for which the recording
  /// is of no use.
  std::shared_ptr<const MPSRecording> finish(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor);

 private:
  // A counter of a tensor in `watched_`, and what it was when the tensor was seen first.
  struct Version {
    const TensorImpl* tensor = nullptr;
    c10::VariableVersion counter;
    uint32_t first = 0;
    bool is_of_result = false;

    bool isWritten() const {
      return is_of_result || counter.current_version() != first;
    }
  };

  bool isOfThisSubmission() const;
  void observeBuffer(const void* buffer);
  void keepBuffer(const void* buffer);
  void refuseMove(const MPSWatchedTensor& tensor);
  static std::vector<c10::VariableVersion> writtenOf(const std::vector<Version>& versions);
  static void addWrittenGradients(std::vector<MPSWrittenGradient>& gradients,
                                  const std::vector<MPSWatchedTensor>& watched,
                                  const std::vector<Version>& versions);

  const bool freeze_host_reads_;
  const std::vector<Generator> generators_;
  std::atomic<int> unrecorded_draws_{0};
  const bool check_input_liveness_;
  MPSHostComputations host_computations_;
  // observes the operators of the threads that work for the capture, and tells them from others: autograd hands it on
  std::atomic<CallbackHandle> operator_observer_{0};
  // guards what follows. Never call the allocator while it is held: the allocator calls observeBuffer() under its own
  // lock.
  MPSMutex<MPSLockRank::CAPTURE> mutex_;
  std::shared_ptr<MPSRecording> recording_;
  // allocated by this capture; true if in the graph's pool
  std::unordered_map<const void*, bool> allocated_here_;
  std::vector<MPSWatchedTensor> watched_;
  std::vector<Version> versions_;
  // where in it a tensor is; its weak reference keeps the address from being used again
  std::unordered_map<const TensorImpl*, size_t> watched_places_;
  // in watched_
  std::vector<size_t> unnamed_;
  // bytes that no kernel has taken yet
  std::vector<std::pair<std::vector<uint8_t>, std::shared_ptr<MPSHostRefresh>>> expected_bytes_;
  std::string refusal_;
  bool warned_host_read_ = false;
  bool wants_lines_ = false;
  bool stopped_ = false;
};

/// The capture that work submitted by this thread is part of, or none; on the queue, by the thread that submitted the
/// block. Holds a lock, so the capture can't end. Run no operator while you hold it.
class MPSCaptureUnderway {
 public:
  MPSCaptureUnderway();

  explicit operator bool() const {
    return capture_ != nullptr;
  }
  MPSGraphCapture* operator->() const {
    return capture_;
  }
  MPSGraphCapture& operator*() const {
    return *capture_;
  }

 private:
  std::unique_lock<MPSMutex<MPSLockRank::UNDERWAY>> lock_;
  MPSGraphCapture* capture_ = nullptr;
};

} // namespace at::mps
