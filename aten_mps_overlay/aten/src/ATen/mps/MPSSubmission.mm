#include <ATen/mps/MPSLockOrder.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/mps/MPSSubmission.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace at::mps {

// Of each thread:
// how many pauses it is in
static thread_local int pauses = 0;
// what its copies to the device read, if that is a CPU tensor
static thread_local std::shared_ptr<MPSHostRefresh> host_source_now;
// the operators that it runs, the caller's first
static thread_local std::vector<const RecordFunction*> operators_now;

// Of all threads:
// the observer of the capture underway. Operators run on any thread, also while a capture ends
static std::atomic<CallbackHandle> capture_underway{INVALID_CALLBACK_HANDLE};

// Of the stream's queue, and used on it only:
// that of the block which it runs
static MPSSubmission* running_submission = nullptr;

bool isObserved(CallbackHandle observer) {
  const auto& observers = get_record_function_tls_().sorted_tls_callbacks_;
  return std::any_of(observers.begin(), observers.end(), [&](const auto& entry) { return entry.handle_ == observer; });
}

MPSSubmission MPSSubmission::ofThisThread() {
  MPSSubmission submission;
  const CallbackHandle observer = captureUnderway();
  if (observer == INVALID_CALLBACK_HANDLE || pauses > 0 || !isObserved(observer)) {
    return submission;
  }
  submission.capture = observer;
  submission.host_source = host_source_now;
  if (!operators_now.empty()) {
    submission.outermost_operator = operators_now.front()->name();
    submission.innermost_operator = operators_now.back()->name();
  }
  return submission;
}

MPSSubmission MPSSubmission::current() {
  if (!getCurrentMPSStream()->isOnQueue()) {
    return ofThisThread();
  }
  if (running_submission) {
    return *running_submission;
  }
  MPSSubmission submission = ofThisThread();
  submission.is_known = submission.capture != 0;
  return submission;
}

bool MPSSubmission::mayRaise() {
  return !getCurrentMPSStream()->isOnQueue() || running_submission;
}

void setInnermostOperator(const char* name) {
  TORCH_INTERNAL_ASSERT(running_submission);
  running_submission->innermost_operator = name;
}

void dispatchSubmission(dispatch_queue_t queue, void (^block)()) {
  if (queue != getCurrentMPSStream()->queue()) {
    dispatch_sync(queue, block);
    return;
  }
  MPSSubmission of_this_thread = MPSSubmission::ofThisThread();
  auto* submission = &of_this_thread;
  MPSLockOrder::take(MPSLockRank::QUEUE);
  const auto end = c10::make_scope_exit([] { MPSLockOrder::giveBack(MPSLockRank::QUEUE); });
  dispatch_sync(queue, ^() {
    running_submission = submission;
    const auto end_block = c10::make_scope_exit([] { running_submission = nullptr; });
    block();
  });
}

std::string inOperator() {
  const char* name = MPSSubmission::current().outermost_operator;
  return name ? std::string(", in ") + name : "";
}

void beginOperator(const RecordFunction& function) {
  operators_now.push_back(&function);
}

void endOperator() {
  operators_now.pop_back();
}

void setCaptureUnderway(CallbackHandle capture) {
  capture_underway.store(capture, std::memory_order_release);
}

CallbackHandle captureUnderway() {
  return capture_underway.load(std::memory_order_acquire);
}

void setHostSource(std::shared_ptr<MPSHostRefresh> source) {
  host_source_now = std::move(source);
}

MPSCapturePause::MPSCapturePause() {
  pauses++;
}

MPSCapturePause::~MPSCapturePause() {
  pauses--;
}

} // namespace at::mps
