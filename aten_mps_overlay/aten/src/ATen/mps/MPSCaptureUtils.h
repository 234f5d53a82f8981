#pragma once

// What operators and others tell a graph capture, and ask of it. Plain C++: may
// be included where Objective-C is not known.

#include <ATen/core/TensorBase.h>
#include <c10/macros/Macros.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace at::mps {

class MPSCapturePause;

/// Names a memory pool that several graphs may share.
using MPSGraphPool = std::pair<uint64_t, uint64_t>;

/// True if what the calling thread submits becomes part of a graph.
TORCH_API bool isCurrentStreamCapturing();

/// True while a capture of any thread is underway.
TORCH_API bool isCaptureUnderway();

/// Raises if what the calling thread submits becomes part of a graph: `what`
/// names work that a graph can't repeat. The line of the program follows it,
/// then the `cure`.
TORCH_API void assertNotCapturing(
    const std::string& what,
    const std::string& cure = "");

/// Tells a capture of a tensor that is about to be bound: its memory is kept
/// and, outside of all operators, whose tensors the capture sees by itself,
/// replays raise if its storage is moved.
TORCH_API void useInCapture(const TensorBase& tensor);

/// Says at which line of the program the calling thread is; "" if that is not
/// known.
using MPSProgramLine = std::string (*)();

/// Lets refusals name the line that led to them. Bindings of a language set it.
TORCH_API void setProgramLine(MPSProgramLine find);

/// "train.py:12 (step)", or "". Takes the interpreter's lock: hold no other
/// one.
std::string programLine();
bool knowsProgramLine();

/// True if a graph, or a capture underway, watches the tensor for moves of its
/// storage.
TORCH_API bool isWatchedByGraph(const TensorBase& tensor);

/// Put around a copy of `tensor` from the device to the host. During a capture
/// it raises or, if the capture freezes host reads, keeps the work of this
/// thread out of the graph while it lives.
class TORCH_API MPSHostReadGuard {
 public:
  explicit MPSHostReadGuard(const TensorBase& tensor);
  ~MPSHostReadGuard();
  MPSHostReadGuard(const MPSHostReadGuard&) = delete;
  MPSHostReadGuard& operator=(const MPSHostReadGuard&) = delete;

 private:
  std::unique_ptr<MPSCapturePause> pause_;
};

/// Put around a copy of `source` to the device: a replay reads the host memory
/// again. `given` is the tensor that the caller wants copied, of which `source`
/// may be a converted temporary.
class TORCH_API MPSHostSourceGuard {
 public:
  MPSHostSourceGuard(const TensorBase& given, const TensorBase& source);
  ~MPSHostSourceGuard();
  MPSHostSourceGuard(const MPSHostSourceGuard&) = delete;
  MPSHostSourceGuard& operator=(const MPSHostSourceGuard&) = delete;
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
