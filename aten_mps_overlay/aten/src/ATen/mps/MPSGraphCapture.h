#pragma once

// A capture that is underway on the stream. Objective-C++ only; see MPSCommandGraph.h for the interface.

#include <ATen/core/Generator.h>
#include <ATen/mps/MPSCapturedWork.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSRecordingEncoder.h>
#include <ATen/record_function.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace at::mps {

class MPSGraphCapture final : public MPSKernelRecorder {
 public:
  MPSGraphCapture(MPSCaptureErrorMode error_mode, MPSGraphPool pool, std::vector<Generator> generators);
  ~MPSGraphCapture() override;

  MPSCaptureErrorMode errorMode() const {
    return error_mode_;
  }

  // Called by the stream, on its queue.
  /// Returns a retained stand-in for `encoder`.
  id<MTLComputeCommandEncoder> newRecordingEncoder(id<MTLComputeCommandEncoder> encoder);
  void recordGraphRun(MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets);
  void recordCopy(MPSCopyStep copy);
  void recordStep(MPSCommandStep step);
  void recordKernel(MPSKernelStep step) override;
  void useBuffer(id<MTLBuffer> buffer) override;
  void refuse(const std::string& reason) override;

  // Called from any thread.
  void watchTensor(const TensorBase& tensor);
  /// Takes over what is to be checked after the replay of another graph.
  void keepChecks(const MPSCapturedWork& part);
  /// Lets each replay check a status that a kernel object writes into the tensor.
  void checkStatus(const Tensor& status, const std::string& message);
  void keepPart(std::shared_ptr<const MPSCapturedWork> part);
  /// Names the operator of the steps that follow, which come from the replay of another graph; nullptr ends that.
  void setReplayedOperator(const std::string* name) {
    replayed_operator_ = name;
  }
  /// True when a replay is to draw from the generator again.
  bool isRegistered(const GeneratorImpl* generator) const;
  /// Counts numbers drawn from a generator (and 1) and the steps by which a replay draws them again (and -1).
  void countDraws(int difference) {
    unrecorded_draws_ += difference;
  }
  /// True the first time: host reads are frozen, which deserves a warning.
  bool isFirstHostRead() {
    return !std::exchange(warned_host_read_, true);
  }

  /// Observes no more operators and allocations. On the queue; the destructor calls it too.
  void stop();
  /// Hands over what was recorded, or raises with the first reason for which the recording is of no use.
  std::shared_ptr<MPSCapturedWork> finish();

 private:
  void observeBuffer(const void* buffer, bool allocated);
  void keepBuffer(const void* buffer);
  void refuseMove(const MPSWatchedTensor& tensor);

  const MPSCaptureErrorMode error_mode_;
  const std::vector<Generator> generators_;
  std::atomic<int> unrecorded_draws_{0};
  CallbackHandle operator_observer_;
  // guards what follows. Never call the allocator while it is held: the allocator calls observeBuffer() under its own
  // lock.
  std::mutex mutex_;
  std::shared_ptr<MPSCapturedWork> work_;
  // with whether they lie in the graph's pool
  std::unordered_map<const void*, bool> allocated_here_;
  // where work_->watched has a tensor; its weak reference keeps the address from being used again
  std::unordered_map<const TensorImpl*, size_t> watched_;
  std::string refusal_;
  bool warned_host_read_ = false;
  // used on the queue only
  const std::string* replayed_operator_ = nullptr;
  bool stopped_ = false;
};

/// The capture underway, or none, for threads that are not on the stream's queue: it does not end while this lives. Run
/// no operator meanwhile.
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
  std::unique_lock<std::mutex> lock_;
  MPSGraphCapture* const capture_;
};

/// ", in aten::item" if that is what the caller asked this thread for, "" if it is not known.
std::string inOperator();

/// Keeps what this thread submits out of the graph while it lives.
class MPSCapturePause {
 public:
  MPSCapturePause();
  ~MPSCapturePause();
  MPSCapturePause(const MPSCapturePause&) = delete;
  MPSCapturePause& operator=(const MPSCapturePause&) = delete;
};

/// Reads a status that a kernel object has written, also during a capture: each replay looks at it again, and raises
/// `message` at the next synchronization if it isn't zero.
int readStatus(const Tensor& status, const std::string& message);

/// Calls `encode`, which encodes to the command buffer that it gets, now and in each replay. Must be called on the
/// stream's queue, with no encoder open.
void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>));

} // namespace at::mps
