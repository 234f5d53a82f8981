#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphKernelObjects.h>
#include <ATen/ops/item.h>

namespace at::mps {

void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>)) {
  encode(stream->recordedCommandBuffer());
  if (auto* capture = stream->recordingCapture()) {
    capture->recordStep(MPSEncodeStep{[[encode copy] autorelease]});
  }
}

void encodeAndRecordInEncoder(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>)) {
  id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
  if (stream->recordingCapture()) {
    [(MPSRecordingEncoder*)encoder encodeObject:encode toCommandBuffer:stream->recordedCommandBuffer()];
  } else {
    encode(stream->recordedCommandBuffer(), encoder);
  }
}

int readStatus(const Tensor& status, const std::string& message) {
  {
    const MPSCaptureLock capture;
    if (capture) {
      capture->checkStatus(status, message);
    }
  }
  const MPSCapturePause pause;
  return status.item<int>();
}

} // namespace at::mps
