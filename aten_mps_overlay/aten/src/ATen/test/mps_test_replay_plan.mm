#include <ATen/mps/MPSReplayPlan.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace at::mps;
using at::native::mps::DynamicMetalShaderLibrary;

static constexpr NSUInteger kLength = 8;
static constexpr NSUInteger kBytes = kLength * sizeof(float);

namespace {

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

} // namespace

class MPSReplayPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    stream = getCurrentMPSStream();
    library = std::make_unique<DynamicMetalShaderLibrary>(R"MTL(
    kernel void add(device const float* in, device float* out, constant float& number,
                    uint index [[thread_position_in_grid]]) {
      out[index] = in[index] + number;
    }
    )MTL");
  }

  MPSRetained<id<MTLBuffer>> buffer() {
    return [[stream->device() newBufferWithLength:kBytes options:MTLResourceStorageModeShared] autorelease];
  }

  static void expectFilledWith(const MPSRetained<id<MTLBuffer>>& buffer, float value) {
    const auto* numbers = static_cast<const float*>([buffer.get() contents]);
    for (NSUInteger i = 0; i < kLength; i++) {
      EXPECT_EQ(numbers[i], value);
    }
  }

  void replay(const MPSReplayPlan& plan) {
    dispatch_sync(stream->queue(), ^() {
      @autoreleasepool {
        const auto staging = plan.refreshes().write(stream->device());
        stream->endKernelCoalescing();
        MPSReplayWatch watch(stream, nil);
        watch.look();
        plan.encode(stream, watch, staging.get());
      }
    });
    torch::mps::synchronize();
  }

  MPSStream* stream = nullptr;
  std::unique_ptr<DynamicMetalShaderLibrary> library;
};

TEST_F(MPSReplayPlanTest, KernelsCopiesAndFills) {
  const auto in = buffer(), out = buffer(), copied = buffer();
  const float number = 2;
  MPSKernelStep kernel;
  kernel.size = MTLSizeMake(kLength, 1, 1);
  kernel.threadgroup = MTLSizeMake(kLength, 1, 1);
  const MPSFillStep fill{in, 0, kBytes};
  const MPSCopyStep copy{out, copied, kBytes};
  using Kind = MPSReplayCall::Kind;
  MPSReplayCalls made;
  made.add(Kind::FILL).data = &fill;
  made.add(Kind::SET_PIPELINE).object = library->getPipelineStateForFunc("add");
  made.buffers = {in.get(), out.get()};
  made.offsets = {0, 0};
  made.add(Kind::SET_BUFFERS).count = 2;
  auto& bytes = made.add(Kind::SET_BYTES);
  bytes.index = 2;
  bytes.data = &number;
  bytes.count = sizeof(number);
  made.add(Kind::DISPATCH).data = &kernel;
  made.add(Kind::END_ENCODER);
  made.add(Kind::COMMIT);
  made.add(Kind::COPY).data = &copy;
  const MPSReplayPlan plan(std::move(made));
  for (int i = 0; i < 2; i++) {
    std::memset([in.get() contents], 1, kBytes);
    std::memset([copied.get() contents], 1, kBytes);
    replay(plan);
    expectFilledWith(copied, 2);
  }
}

TEST_F(MPSReplayPlanTest, RefreshesAreWrittenForEachReplay) {
  const auto early = buffer(), late = buffer();
  auto first = std::make_shared<Counting>();
  auto second = std::make_shared<Counting>();
  second->count = 10;
  const std::vector<MPSCommandStep> steps = {MPSHostRefreshStep{second, late, kBytes},
                                             MPSHostRefreshStep{first, early, kBytes, 0, /*owns_destination=*/true}};
  MPSReplayCalls made;
  made.refreshes = MPSReplayRefreshes(steps);
  EXPECT_FALSE(made.refreshes.isEarly(steps[0]));
  EXPECT_TRUE(made.refreshes.isEarly(steps[1]));
  made.add(MPSReplayCall::Kind::REFRESH).data = &std::get<MPSHostRefreshStep>(steps[0]);
  const MPSReplayPlan plan(std::move(made));
  for (int i = 1; i <= 3; i++) {
    plan.refreshes().check();
    replay(plan);
    expectFilledWith(early, i);
    expectFilledWith(late, 10 + i);
  }
  first->fails = true;
  EXPECT_THROW(plan.refreshes().check(), c10::Error);
}

TEST_F(MPSReplayPlanTest, StagingBuffersAreUsedAgain) {
  MPSStagingBuffers buffers(16);
  auto first = buffers.take(stream->device());
  const auto second = buffers.take(stream->device());
  EXPECT_NE(first.get(), second.get());
  buffers.giveBack(buffers.lend(first, nil));
  EXPECT_EQ(buffers.take(stream->device()).get(), first.get());
}

TEST_F(MPSReplayPlanTest, FewStagingBuffersAreKept) {
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

TEST_F(MPSReplayPlanTest, LargeStagingBuffersWaitForTheGPU) {
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

TEST_F(MPSReplayPlanTest, HostSourceReadsTheTensorAgain) {
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
