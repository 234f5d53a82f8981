#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/mps/MPSRandomState.h>
#include <ATen/mps/MPSStream.h>

#include <cstring>

namespace at::mps {

static constexpr size_t kStateLength = detail::PHILOX_STATE_N * sizeof(uint32_t);

static void checkRegistered(const MPSGraphCapture& capture, const GeneratorImpl* generator) {
  TORCH_CHECK(
      capture.isRegistered(generator),
      "torch.mps graph capture: random numbers were drawn from a generator that the graph does not know",
      inOperator(),
      ", so that replays could not draw on. Call graph.register_generator_state(generator) before the capture, or use "
      "the default generator.");
}

namespace {

/// Draws again from the generator, which it keeps alive.
class RandomDraw final : public MPSHostRefresh {
 public:
  explicit RandomDraw(MPSGeneratorImpl* generator)
      : generator_(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(generator)) {}

  void check() const override {
    // a replay inside the capture of another graph becomes part of that one
    const MPSCaptureUnderway capture;
    if (capture) {
      checkRegistered(*capture, generator_.unsafeGetGeneratorImpl());
    }
  }

  void write(void* bytes) override {
    std::lock_guard<std::mutex> lock(generator_.mutex());
    auto* generator = generator_.get<MPSGeneratorImpl>();
    generator->update_philox_counters();
    if (auto* capture = getCurrentMPSStream()->recordingCapture()) {
      capture->countDraws(-1); // the replay hands over the step itself
    }
    std::memcpy(bytes, generator->state_data(), kStateLength);
  }

 private:
  Generator generator_;
};

} // namespace

void checkDrawInCapture(const MPSGeneratorImpl& generator) {
  const MPSCaptureUnderway capture;
  if (capture) {
    checkRegistered(*capture, &generator);
    capture->countDraws(1);
  }
}

void assertNotDrawnInCapture(const MPSGeneratorImpl& generator, const char* what) {
  const MPSCaptureUnderway capture;
  TORCH_CHECK(!capture || !capture->isRegistered(&generator),
              "torch.mps graph capture: ",
              what,
              ", which a replay would not do. Do it before the capture.");
}

MPSGraphTensorData* recordDraw(MPSGeneratorImpl* generator) {
  const MPSCaptureUnderway capture;
  if (!capture) {
    return nil;
  }
  id<MTLDevice> device = getCurrentMPSStream()->device();
  id<MTLBuffer> state = [[device newBufferWithBytes:generator->state_data()
                                             length:kStateLength
                                            options:MTLResourceStorageModeShared] autorelease];
  MPSHostRefreshStep step;
  step.refresh = std::make_shared<RandomDraw>(generator);
  step.destination = state;
  step.length = kStateLength;
  step.owns_destination = true;
  capture->recordStep(std::move(step));
  capture->countDraws(-1);
  MPSShape* shape = @[ @(detail::PHILOX_STATE_N) ];
  MPSGraphTensorData* data = [[[MPSGraphTensorData alloc] initWithMTLBuffer:state shape:shape
                                                                   dataType:MPSDataTypeInt32] autorelease];
  if (capture->notesPlaces()) {
    capture->notePlace(data, {state, 0, {detail::PHILOX_STATE_N}, {1}, MPSDataTypeInt32, sizeof(int32_t)});
  }
  return data;
}

} // namespace at::mps
