#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStream.h>

namespace at::mps {

bool isCurrentStreamCapturing() {
  return MPSSubmission::current().capture != 0;
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
  if (isCurrentStreamCapturing()) {
    setHostSource(std::make_shared<MPSHostSource>(given, source));
  }
}

MPSHostSourceGuard::~MPSHostSourceGuard() {
  setHostSource(nullptr);
}

bool isWatchedByGraph(const TensorBase& tensor) {
  return MPSWatchMark::isOn(tensor.unsafeGetTensorImpl());
}

} // namespace at::mps
