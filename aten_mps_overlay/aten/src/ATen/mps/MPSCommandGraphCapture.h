#pragma once

// The capture that is underway on the stream: whose work it records, and what. Objective-C++ only.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/mps/MPSCommandGraphHostComputations.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <ATen/record_function.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace at::mps {

class MPSCommandGraphCapture;

/// The capture that is underway on the stream. A thread works for it if the thread has its observer: PyTorch hands
/// observers on to threads that go on with a thread's work.
struct MPSActiveCapture {
  // A thread takes the engine's locks in this order: that of an MPSCommandGraph, the stream's queue, this one, that of
  // the MPSCommandGraphCapture, those of its MPSHostComputations and of the allocator, which calls the capture's filter
  // while it holds its own. A generator's lock comes before this one. All others are leaves.
  std::mutex mutex;
  // Written on the stream's queue, while there is no observer.
  MPSCommandGraphCapture* capture = nullptr;
  // INVALID_CALLBACK_HANDLE while no thread is recorded. Written under the mutex.
  std::atomic<CallbackHandle> observer{INVALID_CALLBACK_HANDLE};
};
extern MPSActiveCapture active_capture;

/// The thread that submitted a block of the stream's queue, which may run the block on another thread.
struct MPSSubmission {
  /// In a block that was submitted for a capture: that thread. Elsewhere: the calling thread.
  static MPSSubmission current();
  /// The `capture` of current().
  static CallbackHandle currentCapture();
  /// In work of a capture: whether an operator submits it.
  static bool isInOperator();
  /// True if an exception may leave the current code. It must not leave a block of plain dispatch_sync().
  static bool mayRaise();

  /// The observer of the capture that the work is part of, or INVALID_CALLBACK_HANDLE.
  CallbackHandle capture = INVALID_CALLBACK_HANDLE;
  /// The operators that the thread runs, the caller's and the innermost, or nullptr.
  const char* outermost_operator = nullptr;
  const char* innermost_operator = nullptr;
  /// What a copy to the device reads.
  std::shared_ptr<MPSHostSource> host_source;
  /// Why a graph can't have the block, or nullptr. The submitter raises it.
  const char* problem = nullptr;
};

/// Names the innermost operator of what the rest of the block submits. In blocks that are part of a capture only.
void setInnermostOperator(const char* name);

/// ", in aten::item" if that is what the caller asked the submitting thread for, "" if it is not known.
std::string inOperator();

/// Whether the calling thread has the observer.
bool isObserved(CallbackHandle observer);

/// Tells what the calling thread's copies to the device read.
void setHostSource(std::shared_ptr<MPSHostSource> source);

/// Visits the tensors of an argument or result of an operator.
template <typename Visitor>
void forEachTensor(const IValue& value, const Visitor& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) {
      forEachTensor(element, visit);
    }
  }
}

class MPSStream;

class MPSCommandGraphCapture final : public MPSKernelRecorder {
 public:
  /// Takes the stream. On its queue, with no compute encoder open.
  MPSCommandGraphCapture(bool freeze_host_reads,
                         MPSCommandGraphPool pool,
                         bool draws_from_default_only,
                         bool check_input_liveness);
  ~MPSCommandGraphCapture() override;

  bool freezesHostReads() const {
    return freeze_host_reads_;
  }

  /// Records the calling thread from now on. Off the queue.
  void recordThisThread();
  /// Records no thread any more. On any thread; on the queue only when a graph is destroyed there.
  void recordNoThread();

  // Called by the stream, on its queue.
  /// True if what is encoded now is part of the capture.
  static bool records();
  /// Returns a retained stand-in for `encoder`.
  id<MTLComputeCommandEncoder> newRecordingEncoder(id<MTLComputeCommandEncoder> encoder);
  /// Encodes the run as an executable and records it. If that is impossible, it returns false, and the submission
  /// fails.
  bool recordGraphRun(MPSStream* stream, MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets);
  void recordCopy(MPSCopyStep copy);
  void recordStep(MPSCommandStep step);
  MPSKernelStep& beginKernels() override;
  void recordWork() override;
  void keepObject(id object) override;
  std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) override;
  void refuse(const std::string& reason) override;

  // Called from any thread.
  enum class Seen {
    GIVEN, // an argument of an operator. It is from before the block, unless its memory was allocated in the block
    RETURNED, // a result of an operator
    BOUND, // bound outside of operators; from before the block, as GIVEN
  };
  void watchTensor(const TensorBase& tensor);
  /// The same if no operator binds the tensor. What an operator binds is only kept, since the observer sees what
  /// operators are given and give.
  void useTensor(const TensorBase& tensor);
  /// Returns true if there are inputs that nameUses() has not named.
  bool watchTensors(c10::ArrayRef<const Tensor*> tensors, Seen seen);
  void nameUses(const std::shared_ptr<const MPSProgramPlace>& place);
  /// Asks for the lines of the program that make tensors.
  void nameResults() {
    names_results_ = true;
  }
  /// Asks for the lines of the program that submit the steps.
  void wantLines() {
    wants_lines_ = true;
  }
  /// Whether there are steps without a line, though they are wanted.
  bool lacksLines();
  void setLines(const MPSProgramFrame& frame);
  /// Lets each replay check a status that earlier work writes into the tensor.
  void checkStatus(const Tensor& status, const std::string& message);
  void keepPart(std::shared_ptr<const MPSCommandGraphRecording> part);
  /// Raises if a replay of the recording would overwrite memory of the block. On the queue.
  void checkPool(const MPSCommandGraphRecording& recording) const;
  /// Differs from those of all earlier captures.
  uint64_t number() const {
    return number_;
  }
  bool drawsFromDefaultOnly() const {
    return draws_from_default_only_;
  }
  bool hasAllocated(const void* data) const;
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

  /// Gives the stream back and observes no more allocations. After recordNoThread(), on the queue, with no compute
  /// encoder open.
  void stop();
  /// Hands over what was recorded, or raises with the first reason for which the recording is of no use.
  std::shared_ptr<const MPSCommandGraphRecording> finish(bool ignores_requires_grad = false);

 private:
  void keepBuffer(const void* buffer);
  // with the lock
  void addOrigin(size_t step);
  void watch(const TensorBase& tensor, Seen seen);
  void refuseMove(const MPSCommandGraphInputs::Tensor& tensor);

  const bool freeze_host_reads_;
  const bool draws_from_default_only_;
  std::atomic<int> unrecorded_draws_{0};
  const bool check_input_liveness_;
  MPSHostComputations host_computations_;
  // the allocator's number of the capture
  uint64_t number_ = 0;
  // guards what follows
  std::mutex mutex_;
  std::shared_ptr<MPSCommandGraphRecording> recording_;
  // bytes that no kernel has taken yet
  std::vector<std::pair<std::vector<uint8_t>, std::shared_ptr<MPSHostRefresh>>> expected_bytes_;
  // of the copies that the block does
  std::vector<std::shared_ptr<MPSHostSource>> host_sources_;
  // the position of the step that takes the calls of the open compute encoder
  size_t open_kernels_ = 0;
  // in the recording's names
  const char* last_name_ = "";
  // Makes the text of the first refusal, which takes the interpreter's lock: hold no other one.
  std::function<std::string()> refusal_;
  bool warned_host_read_ = false;
  bool wants_lines_ = false;
  bool names_results_ = false;
  bool stopped_ = false;
};

/// Locks the capture that this thread works for, if any; on the queue, the one that the thread which submitted the
/// block works for. A locked capture can't end. Run no operator while you hold it.
class MPSCaptureLock {
 public:
  MPSCaptureLock() {
    if (isCaptureUnderway()) {
      lock();
    }
  }

  explicit operator bool() const {
    return capture_ != nullptr;
  }
  MPSCommandGraphCapture* operator->() const {
    return capture_;
  }
  MPSCommandGraphCapture& operator*() const {
    return *capture_;
  }

 private:
  void lock();

  std::unique_lock<std::mutex> lock_;
  MPSCommandGraphCapture* capture_ = nullptr;
};

} // namespace at::mps
