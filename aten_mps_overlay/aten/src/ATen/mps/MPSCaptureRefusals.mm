#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStream.h>

namespace at::mps {

void assertNotCapturing(const std::string& what, const std::string& cure) {
  if (isCurrentStreamCapturing()) {
    const auto line = programLine();
    if (cure.empty()) {
      TORCH_CHECK(false, "torch.mps graph capture: ", what, line.empty() ? line : " That was at " + line + ".");
    }
    TORCH_CHECK(false, "torch.mps graph capture: ", what, line.empty() ? line : ", at " + line, ". ", cure);
  }
}

void refuseRawCommandBuffer() {
  static constexpr const char* reason =
      "code took the stream's raw command buffer, and a graph does not record the work that is encoded to it directly. "
      "Take the encoder from MPSStream::commandEncoder() instead";
  auto* stream = getCurrentMPSStream();
  if (MPSSubmission::mayRaise()) {
    assertNotCapturing(std::string(reason) + ".");
  } else if (auto* capture = stream->recordingCapture()) {
    // an exception must not leave a block of dispatch_sync()
    capture->refuse(reason);
  }
}

MPSHostReadGuard::MPSHostReadGuard(const TensorBase& tensor) {
  bool is_captured = false;
  bool is_refused = false;
  bool is_first = false;
  {
    const MPSCaptureUnderway capture;
    is_captured = static_cast<bool>(capture);
    is_refused = is_captured && !capture->freezesHostReads();
    is_first = is_captured && !is_refused && capture->isFirstHostRead();
  }
  if (is_refused || is_first) {
    const auto line = programLine();
    const auto read = c10::str("torch.mps graph capture: the host read device data: the ",
                               tensor.scalar_type(),
                               " tensor of shape ",
                               tensor.sizes(),
                               inOperator(),
                               line.empty() ? line : ", at " + line);
    TORCH_CHECK(
        !is_refused,
        read,
        ". A replay can't read it again. Move the read (.item(), .cpu(), printing, a tensor as a condition, ...) "
        "out of the capture, or pass freeze_host_reads=True to fix the value.");
    TORCH_WARN(
        read, ". With freeze_host_reads=True every replay uses the value of the capture. Later reads give no warning.");
  }
  if (is_captured) {
    pause_ = std::make_unique<MPSCapturePause>();
  }
}

MPSHostReadGuard::~MPSHostReadGuard() = default;

} // namespace at::mps
