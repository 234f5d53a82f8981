#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSKernelObjects.h>
#include <ATen/ops/item.h>

namespace at::mps {

void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>)) {
  encode(stream->recordedCommandBuffer());
  if (auto* capture = stream->recordingCapture()) {
    void (^kept)(id<MTLCommandBuffer>) = [[encode copy] autorelease];
    capture->recordStep(MPSEncodeStep{[[^(id<MTLCommandBuffer> command_buffer, id<MTLComputeCommandEncoder>) {
      kept(command_buffer);
    } copy] autorelease]});
  }
}

void encodeAndRecordInEncoder(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>)) {
  auto* capture = stream->recordingCapture();
  if (!capture) {
    id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
    encode(stream->recordedCommandBuffer(), encoder);
    return;
  }
  stream->endKernelCoalescing();
  MPSEncodeStep step{[[encode copy] autorelease], /*takes_encoder=*/true};
  encodeAlone(stream->recordedCommandBuffer(), step);
  capture->recordStep(std::move(step));
}

int readStatus(const Tensor& status, const std::string& message) {
  {
    const MPSCaptureUnderway capture;
    if (capture) {
      capture->checkStatus(status, message);
    }
  }
  const MPSCapturePause pause;
  return status.item<int>();
}

} // namespace at::mps
