#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStream.h>

#include <atomic>

namespace at::mps {

static std::atomic<MPSProgramLine> program_line{nullptr};
static std::atomic<MPSGradientTarget> gradient_target{nullptr};

void setProgramLine(MPSProgramLine find) {
  program_line = find;
}

std::string programLine() {
  const MPSProgramLine find = program_line;
  return find && !getCurrentMPSStream()->isOnQueue() ? find() : "";
}

bool knowsProgramLine() {
  return program_line != nullptr;
}

void setGradientTarget(MPSGradientTarget find) {
  gradient_target = find;
}

TensorBase gradientTarget() {
  const MPSGradientTarget find = gradient_target;
  return find ? find() : TensorBase();
}

bool isCurrentStreamCapturing() {
  // first: the stream makes the device, for which a program may have no use
  return captureUnderway() != INVALID_CALLBACK_HANDLE && MPSSubmission::current().capture != 0;
}

bool isCaptureUnderway() {
  return getCurrentMPSStream()->capture() != nullptr;
}

void useInCapture(const TensorBase& tensor) {
  if (!isCaptureUnderway() || !tensor.is_mps() || !tensor.has_storage() || !tensor.storage().data()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (!capture) {
    return;
  }
  if (MPSSubmission::current().outermost_operator) {
    // what operators are given and give is seen by the observer
    capture->keepTensor(tensor);
  } else {
    capture->watchTensor(tensor);
  }
}

MPSHostSourceGuard::MPSHostSourceGuard(const TensorBase& given, const TensorBase& source) {
  if (!isCurrentStreamCapturing()) {
    return;
  }
  std::string problem;
  if (const MPSCaptureUnderway capture; capture) {
    problem = capture->hostComputations().useSource(given);
  }
  TORCH_CHECK(problem.empty(), "torch.mps graph capture: ", problem, ".");
  setHostSource(std::make_shared<MPSHostSource>(given, source));
}

MPSHostSourceGuard::~MPSHostSourceGuard() {
  setHostSource(nullptr);
}

bool isWatchedByGraph(const TensorBase& tensor) {
  return MPSWatchMark::isOn(tensor.unsafeGetTensorImpl());
}

} // namespace at::mps
