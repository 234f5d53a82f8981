#pragma once

// Whose work the stream's queue runs: which capture it is part of, if any, and which operator submitted it.
// Objective-C++ only.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/record_function.h>

#include <dispatch/dispatch.h>

#include <memory>
#include <string>

namespace at::mps {

/// The thread that submitted a block of the stream's queue, which may run the block on another thread.
struct MPSSubmission {
  /// Asks the calling thread, which must not be on the queue.
  static MPSSubmission ofThisThread();
  /// On the queue: who submitted the running block. Off the queue: the calling thread.
  static MPSSubmission current();
  /// True if an exception may leave the current code. It must not leave a block of plain dispatch_sync().
  static bool mayRaise();

  /// The capture that the work is part of, or 0.
  CallbackHandle capture = 0;
  /// The operators that the thread runs, the caller's and the innermost, or nullptr.
  const char* outermost_operator = nullptr;
  const char* innermost_operator = nullptr;
  /// What a copy to the device reads.
  std::shared_ptr<MPSHostRefresh> host_source;
  /// False if nobody knows who submitted the block: it came by plain dispatch_sync(), on a thread without the observer.
  bool is_known = true;
};

/// Names the innermost operator of what the rest of the block submits. In blocks of dispatchSubmission() only.
void setInnermostOperator(const char* name);

/// dispatch_sync(), which also tells the queue that the calling thread submitted the block.
void dispatchSubmission(dispatch_queue_t queue, void (^block)());

/// ", in aten::item" if that is what the caller asked the submitting thread for, "" if it is not known.
std::string inOperator();

/// Whether the calling thread has the observer. A thread works for the capture whose observer it has: PyTorch hands
/// observers on to threads that go on with its work.
bool isObserved(CallbackHandle observer);
/// Names the capture underway by its observer; INVALID_CALLBACK_HANDLE if there is none.
void setCaptureUnderway(CallbackHandle capture);
CallbackHandle captureUnderway();

/// Tell which operators the calling thread runs.
void beginOperator(const RecordFunction& function);
void endOperator();

/// Tells what the calling thread's copies to the device read.
void setHostSource(std::shared_ptr<MPSHostRefresh> source);

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

/// Keeps what this thread submits out of the graph while it lives.
class MPSCapturePause {
 public:
  MPSCapturePause();
  ~MPSCapturePause();
  MPSCapturePause(const MPSCapturePause&) = delete;
  MPSCapturePause& operator=(const MPSCapturePause&) = delete;
};

} // namespace at::mps
