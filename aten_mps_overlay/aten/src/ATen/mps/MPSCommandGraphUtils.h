#pragma once

// What operators and others tell a graph capture, and ask of it. Plain C++: may
// be included where Objective-C is not known.

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <c10/macros/Macros.h>

#ifdef __OBJC__
#include <dispatch/dispatch.h>
#endif

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace at::mps {

namespace detail {
/// Written on the stream's queue.
TORCH_API extern std::atomic<bool> capture_underway;
} // namespace detail

/// True while a capture of any thread is underway. Everything that eager
/// operators pass asks this first.
inline bool isCaptureUnderway() {
  return C10_UNLIKELY(detail::capture_underway.load(std::memory_order_relaxed));
}

#ifdef __OBJC__
/// Submits a block during a capture, of which it is part if the calling thread
/// works for the capture. Raises what the block raises.
TORCH_API void dispatchInCapture(dispatch_queue_t queue, void (^block)());

/// dispatch_sync() for work that captures record.
inline void dispatchRecorded(dispatch_queue_t queue, void (^block)()) {
  if (isCaptureUnderway()) {
    dispatchInCapture(queue, block);
  } else {
    dispatch_sync(queue, block);
  }
}
#endif

/// Names a memory pool that several graphs may share.
using MPSCommandGraphPool = std::pair<uint64_t, uint64_t>;

/// True if what the calling thread submits becomes part of a graph.
TORCH_API bool isCurrentStreamCapturing();

/// Raises the message if what the calling thread submits becomes part of a
/// graph. The capture then fails even if the block catches the error, because
/// the block may go on otherwise than eager would.
TORCH_API void raiseInCapture(const std::string& message);

/// The same: `what` names work that a graph can't repeat. The line of the
/// program follows it, then the `cure`.
TORCH_API void assertNotCapturing(const std::string& what, const std::string& cure = "");
inline void assertNotCapturing(const char* what) {
  if (isCaptureUnderway()) {
    assertNotCapturing(std::string(what));
  }
}

/// Keeps what this thread submits out of the graph while it lives.
class TORCH_API MPSCapturePause {
 public:
  MPSCapturePause() : is_active_(isCaptureUnderway()) {
    if (is_active_) {
      begin();
    }
  }
  ~MPSCapturePause() {
    if (C10_UNLIKELY(is_active_)) {
      end();
    }
  }
  MPSCapturePause(const MPSCapturePause&) = delete;
  MPSCapturePause& operator=(const MPSCapturePause&) = delete;

 private:
  static void begin();
  static void end();

  const bool is_active_;
};

/// Tells a capture of a tensor that is about to be bound: its memory is kept
/// and, outside of all operators, whose tensors the capture sees by itself,
/// replays raise if its storage is moved.
TORCH_API void useInCaptureUnderway(const TensorBase& tensor);
inline void useInCapture(const TensorBase& tensor) {
  if (isCaptureUnderway()) {
    useInCaptureUnderway(tensor);
  }
}

/// True if the capture that the calling thread works for allocated the memory
/// of the tensor.
TORCH_API bool isAllocatedInCapture(const TensorBase& tensor);

/// A line of the program. Text is made of it only for an error or a dump.
using MPSProgramFrame = std::shared_ptr<c10::GatheredContext>;

/// Lets errors name the line that led to them. Bindings of a language set what
/// finds the line of the calling thread, and what describes a line.
TORCH_API void setProgramLine(MPSProgramFrame (*gather)(), std::string (*line_of)(const MPSProgramFrame&));

/// Null if nobody knows. Takes the interpreter's lock: hold no other one.
MPSProgramFrame programFrame();
/// "train.py:12 (step)", or "". Takes the interpreter's lock: hold no other
/// one.
std::string programLine(const MPSProgramFrame& frame = programFrame());
bool knowsProgramLine();

/// Put around a copy of `tensor` from the device to the host. During a capture
/// it raises or, if the capture freezes host reads, keeps the work of this
/// thread out of the graph while it lives.
class TORCH_API MPSHostReadGuard {
 public:
  explicit MPSHostReadGuard(const TensorBase& tensor) {
    if (isCaptureUnderway()) {
      begin(tensor);
    }
  }
  MPSHostReadGuard(const MPSHostReadGuard&) = delete;
  MPSHostReadGuard& operator=(const MPSHostReadGuard&) = delete;

 private:
  void begin(const TensorBase& tensor);

  std::optional<MPSCapturePause> pause_;
};

/// Put around a copy of `source` to the device: a replay reads the host memory
/// again. `given` is the tensor that the caller wants copied, of which `source`
/// may be a converted temporary.
class TORCH_API MPSHostSourceGuard {
 public:
  MPSHostSourceGuard(const TensorBase& given, const TensorBase& source) {
    if (isCaptureUnderway()) {
      is_set_ = begin(given, source);
    }
  }
  ~MPSHostSourceGuard() {
    if (C10_UNLIKELY(is_set_)) {
      end();
    }
  }
  MPSHostSourceGuard(const MPSHostSourceGuard&) = delete;
  MPSHostSourceGuard& operator=(const MPSHostSourceGuard&) = delete;

 private:
  static bool begin(const TensorBase& given, const TensorBase& source);
  static void end();

  bool is_set_ = false;
};

/// Makes the capture that the caller's work is part of fail: what is encoded to
/// the command buffer itself is lost.
void refuseRawCommandBuffer();

/// The tensor whose gradient the calling thread's backward pass accumulates.
using MPSGradientTarget = TensorBase (*)();

/// Lets captures see tensors that no operator of the block is given. Bindings
/// of a language, which know autograd, set it.
TORCH_API void setGradientTarget(MPSGradientTarget find);

/// Undefined if that is not known.
TensorBase gradientTarget();

} // namespace at::mps
