#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSCommandGraphStaging.h>
#include <ATen/test/mps_recorded_steps.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace at::mps;

class MPSStepEncoderTest : public MPSRecordedStepsTest {
 protected:
  /// Gives the same number at each place: 1 at the first write, 2 at the second, ...
  struct Counting final : MPSHostRefresh {
    void check() const override {
      TORCH_CHECK(!fails);
    }
    void write(void* bytes) override {
      const std::vector<float> numbers(kLength, ++count);
      std::memcpy(bytes, numbers.data(), kBytes);
    }

    float count = 0;
    bool fails = false;
  };

  static void expectFilledWith(const Buffer& buffer, float value) {
    const auto* numbers = static_cast<const float*>([buffer.get() contents]);
    for (NSUInteger i = 0; i < kLength; i++) {
      EXPECT_EQ(numbers[i], value);
    }
  }

  void replay(const std::deque<MPSCommandStep>& steps, const MPSReplayRefreshes& refreshes) {
    dispatch_sync(stream->queue(), ^() {
      @autoreleasepool {
        const auto staging = refreshes.takeStaging(stream->device());
        refreshes.write(staging.get());
        stream->endKernelCoalescing();
        MPSReplayWatch watch(stream, nil);
        watch.watchCommandBuffer();
        refreshes.encodeFirstBlit(stream->recordedCommandBuffer(), staging.get());
        MPSStepEncoder encoder(stream, watch, refreshes, staging.get());
        for (const auto& step : steps) {
          if (!refreshes.isInFirstBlit(step)) {
            encoder.encode(step);
          }
        }
        refreshes.giveBackAfter(watch, staging);
      }
    });
    torch::mps::synchronize();
  }
};

TEST_F(MPSStepEncoderTest, KernelsCopiesAndFills) {
  const auto in = buffer(), out = buffer(), copied = buffer();
  const auto kernel = add(in, out, 2);
  const std::deque<MPSCommandStep> steps = {
      MPSFillStep{in, 0, kBytes}, kernel, MPSCopyStep{out, in, kBytes}, kernel, MPSCopyStep{out, copied, kBytes}};
  for (int i = 0; i < 2; i++) {
    std::memset([in.get() contents], 1, kBytes);
    std::memset([copied.get() contents], 1, kBytes);
    replay(steps, MPSReplayRefreshes(steps));
    expectFilledWith(copied, 4);
  }
}

TEST_F(MPSStepEncoderTest, RefreshesAreWrittenForEachReplay) {
  const auto early = buffer(), late = buffer();
  auto first = std::make_shared<Counting>();
  auto second = std::make_shared<Counting>();
  second->count = 10;
  const std::deque<MPSCommandStep> steps = {MPSHostRefreshStep{second, late, kBytes},
                                            MPSHostRefreshStep{first, early, kBytes, 0, /*owns_destination=*/true}};
  const MPSReplayRefreshes refreshes(steps);
  EXPECT_FALSE(refreshes.isInFirstBlit(steps[0]));
  EXPECT_TRUE(refreshes.isInFirstBlit(steps[1]));
  for (int i = 1; i <= 3; i++) {
    refreshes.check();
    replay(steps, refreshes);
    expectFilledWith(early, i);
    expectFilledWith(late, 10 + i);
  }
  first->fails = true;
  EXPECT_THROW(refreshes.check(), c10::Error);
}

TEST_F(MPSStepEncoderTest, StatusesAreThoseOfTheirTurn) {
  const auto status = buffer();
  const auto message = std::make_shared<const std::string>("it failed");
  std::deque<MPSCommandStep> steps = {MPSStatusStep{status, sizeof(int32_t), message}, MPSFillStep{status, 1, kBytes}};
  std::memset([status.get() contents], 0, kBytes);
  replay(steps, MPSReplayRefreshes(steps));
  EXPECT_THROW(replay(steps, MPSReplayRefreshes(steps)), c10::Error);
  torch::mps::synchronize();
}

TEST_F(MPSStepEncoderTest, StagingBuffersAreUsedAgain) {
  MPSStagingBuffers buffers(16);
  auto first = buffers.take(stream->device());
  const auto second = buffers.take(stream->device());
  EXPECT_NE(first.get(), second.get());
  buffers.giveBack(buffers.lend(first, nil));
  EXPECT_EQ(buffers.take(stream->device()).get(), first.get());
}

TEST_F(MPSStepEncoderTest, StagingBuffersThatTheHostReadsAreNotUsedAgain) {
  MPSStagingBuffers buffers(16, /*are_used_again=*/false);
  const auto first = buffers.take(stream->device());
  buffers.giveBack(buffers.lend(first, nil));
  EXPECT_NE(buffers.take(stream->device()).get(), first.get());
}

TEST_F(MPSStepEncoderTest, FewStagingBuffersAreKept) {
  MPSStagingBuffers buffers(16);
  std::vector<MPSRetained<id<MTLBuffer>>> taken;
  std::vector<size_t> numbers;
  for (int i = 0; i < 5; i++) {
    taken.push_back(buffers.take(stream->device()));
    numbers.push_back(buffers.lend(taken.back(), nil));
  }
  for (const auto number : numbers) {
    buffers.giveBack(number);
  }
  // no other object may get the address of one that was let go of
  EXPECT_EQ(buffers.take(stream->device()).get(), taken[1].get());
  EXPECT_EQ(buffers.take(stream->device()).get(), taken[0].get());
  const auto made = buffers.take(stream->device());
  EXPECT_EQ(std::count(taken.begin(), taken.end(), made), 0);
}

TEST_F(MPSStepEncoderTest, LargeStagingBuffersWaitForTheGPU) {
  MPSStagingBuffers buffers(20 << 20);
  id<MTLCommandQueue> queue = [[stream->device() newCommandQueue] autorelease];
  id<MTLSharedEvent> event = [[stream->device() newSharedEvent] autorelease];
  for (int i = 0; i < 2; i++) {
    const auto buffer = buffers.take(stream->device());
    id<MTLCommandBuffer> reader = [queue commandBuffer];
    [reader encodeWaitForEvent:event value:1];
    buffers.lend(buffer, reader);
    [reader commit];
  }
  std::atomic<bool> is_taken{false};
  std::thread thread([&] {
    buffers.take(stream->device());
    is_taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(is_taken);
  event.signaledValue = 1;
  thread.join();
}

TEST_F(MPSStepEncoderTest, HostSourceReadsTheTensorAgain) {
  auto given = torch::ones({4}, at::kInt);
  MPSHostSource source(given, given.to(at::kFloat));
  std::vector<float> bytes(4);
  for (const int value : {3, 5}) {
    given.fill_(value);
    source.check();
    source.write(bytes.data());
    EXPECT_EQ(bytes, std::vector<float>(4, value));
  }
  given.resize_({1024});
  EXPECT_THROW(source.check(), c10::Error);
}
