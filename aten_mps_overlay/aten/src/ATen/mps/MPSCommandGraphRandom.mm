#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/mps/MPSCommandGraphRandom.h>
#include <ATen/mps/MPSStream.h>

#include <array>
#include <cstring>
#include <functional>
#include <utility>

namespace at::mps {

static constexpr size_t kStateLength = detail::PHILOX_STATE_N * sizeof(uint32_t);

uint64_t captureNumber() {
  const MPSCaptureLock capture;
  return capture ? capture->number() : 0;
}

static bool isMadeInCapture(const MPSGeneratorImpl& generator) {
  return generator.made_in_capture() != 0 && generator.made_in_capture() == captureNumber();
}

static void checkDrawable(const MPSGeneratorImpl& generator) {
  if (isMadeInCapture(generator)) {
    raiseInCapture(c10::str("random numbers were drawn from a generator that the block made",
                            inOperator(),
                            ", and each run of the block would make a new one. Make it before the capture."));
  }
  bool is_default_only = false;
  if (const MPSCaptureLock capture; capture) {
    is_default_only = capture->drawsFromDefaultOnly();
  }
  if (is_default_only && &generator != detail::getDefaultMPSGenerator().unsafeGetGeneratorImpl()) {
    raiseInCapture(c10::str("random numbers were drawn from a generator other than the default one",
                            inOperator(),
                            ". Graphed callables and compiled functions draw from the default generator alone."));
  }
}

namespace {

// Set while this thread draws in a way that each replay repeats.
thread_local bool draws_again = false;

class DrawingAgain {
 public:
  DrawingAgain() : before_(std::exchange(draws_again, true)) {}
  ~DrawingAgain() {
    draws_again = before_;
  }
  DrawingAgain(const DrawingAgain&) = delete;
  DrawingAgain& operator=(const DrawingAgain&) = delete;

 private:
  const bool before_;
};

/// Draws again from the generator.
class RandomDraw final : public MPSHostRefresh {
 public:
  using Draw = std::function<void(MPSGeneratorImpl& generator, void* bytes)>;

  RandomDraw(MPSGeneratorImpl* generator, Draw draw)
      : generator_(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(generator)), draw_(std::move(draw)) {}

  void check() const override {
    // a replay inside the capture of another graph becomes part of that one
    checkDrawable(*generator().get<MPSGeneratorImpl>());
  }

  void write(void* bytes) override {
    auto living = generator();
    std::lock_guard<std::mutex> lock(living.mutex());
    const DrawingAgain drawing;
    draw_(*living.get<MPSGeneratorImpl>(), bytes);
  }

 private:
  Generator generator() const {
    const auto living = generator_.lock();
    TORCH_CHECK(
        living,
        "torch.mps graph replay: a generator that the block drew from is gone: the program dropped it or replaced "
        "it by a new one, and a replay would draw from the old one. Keep it, or capture again.");
    return Generator(living);
  }

  const c10::weak_intrusive_ptr<c10::GeneratorImpl> generator_;
  const Draw draw_;
};

} // namespace

static void drawState(MPSGeneratorImpl& generator, void* bytes) {
  generator.update_philox_counters();
  std::memcpy(bytes, generator.state_data(), kStateLength);
}

void checkDrawInCapture(const MPSGeneratorImpl& generator) {
  if (!isCaptureUnderway()) {
    return;
  }
  checkDrawable(generator);
  const MPSCaptureLock capture;
  if (capture && !draws_again) {
    capture->countDraws(1);
  }
}

void assertNotDrawnInCapture(const MPSGeneratorImpl& generator, const char* what) {
  if (isCurrentStreamCapturing() && !isMadeInCapture(generator)) {
    raiseInCapture(c10::str(what, ", which a replay would not do. Do it before the capture."));
  }
}

MPSGraphTensorData* recordDraw(MPSGeneratorImpl* generator) {
  const MPSCaptureLock capture;
  if (!capture) {
    return nil;
  }
  id<MTLDevice> device = getCurrentMPSStream()->device();
  id<MTLBuffer> state = [[device newBufferWithBytes:generator->state_data()
                                             length:kStateLength
                                            options:MTLResourceStorageModeShared] autorelease];
  MPSHostRefreshStep step;
  step.refresh = std::make_shared<RandomDraw>(generator, &drawState);
  step.destination = state;
  step.length = kStateLength;
  step.owns_destination = true;
  capture->recordStep(std::move(step));
  capture->countDraws(-1);
  MPSShape* shape = @[ @(detail::PHILOX_STATE_N) ];
  return [[[MPSGraphTensorData alloc] initWithMTLBuffer:state shape:shape dataType:MPSDataTypeInt32] autorelease];
}

static std::array<uint64_t, 2> seedAndOffset(const MPSGeneratorImpl& generator) {
  return {generator.current_seed(), generator.get_offset()};
}

void recordOffsetDraw(MPSGeneratorImpl& generator, uint64_t next_offset) {
  if (!isCurrentStreamCapturing() || draws_again) {
    return;
  }
  const auto now = seedAndOffset(generator);
  if (next_offset == now[1]) {
    return;
  }
  checkDrawable(generator);
  if (next_offset < now[1]) {
    raiseInCapture("a generator was given an earlier offset, which a replay would not do. Do it before the capture.");
  }
  const uint64_t advance = next_offset - now[1];
  auto draw = std::make_shared<RandomDraw>(&generator, [advance](MPSGeneratorImpl& drawn, void* bytes) {
    const auto state = seedAndOffset(drawn);
    std::memcpy(bytes, state.data(), sizeof(state));
    drawn.set_offset(state[1] + advance);
  });
  const auto* first = reinterpret_cast<const uint8_t*>(now.data());
  if (const MPSCaptureLock capture; capture) {
    capture->refreshBytes({first, first + sizeof(now)}, std::move(draw));
  }
}

} // namespace at::mps
