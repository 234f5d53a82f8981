#pragma once

// A capture that is underway on the stream. Objective-C++ only; see MPSCommandGraph.h for the interface.

#include <ATen/mps/MPSCapturedWork.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSRecordingEncoder.h>
#include <ATen/record_function.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace at::mps {

class MPSGraphCapture final : public MPSKernelRecorder {
 public:
  explicit MPSGraphCapture(MPSCaptureErrorMode error_mode);
  ~MPSGraphCapture() override;

  MPSCaptureErrorMode errorMode() const {
    return error_mode_;
  }

  // Called by the stream, on its queue.
  /// Returns a retained stand-in for `encoder`.
  id<MTLComputeCommandEncoder> newRecordingEncoder(id<MTLComputeCommandEncoder> encoder);
  void recordGraphRun(MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets);
  void recordStep(MPSCommandStep step);
  void recordKernel(MPSKernelStep step) override;
  void useBuffer(id<MTLBuffer> buffer) override;
  void refuse(const std::string& reason) override;

  // Called from any thread.
  void watchTensor(const TensorBase& tensor);
  void keepHostSource(const c10::Storage& storage);
  void keepPart(std::shared_ptr<const MPSCapturedWork> part);
  /// Warns, the first time, that host reads are frozen.
  void warnHostRead();

  /// Hands over what was recorded, or raises with the first reason for which the recording is of no use.
  std::shared_ptr<MPSCapturedWork> finish();

 private:
  void observeBuffer(const void* buffer, bool allocated);
  void keepBuffer(const void* buffer);
  void refuseMove(const MPSWatchedTensor& tensor);

  const MPSCaptureErrorMode error_mode_;
  CallbackHandle operator_observer_;
  // guards what follows. Never call the allocator while it is held: the allocator calls observeBuffer() under its own
  // lock.
  std::mutex mutex_;
  std::shared_ptr<MPSCapturedWork> work_;
  std::unordered_set<const void*> allocated_here_;
  // where work_->watched has a tensor; its weak reference keeps the address from being used again
  std::unordered_map<const TensorImpl*, size_t> watched_;
  std::string refusal_;
  bool warned_host_read_ = false;
};

} // namespace at::mps
