#include <ATen/mps/MPSCommandGraphAhead.h>
#include <ATen/mps/MPSStream.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace at::mps;

class MPSReadyReplaysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    queue = getCurrentMPSStream()->commandQueue();
  }

  std::shared_ptr<MPSReadyReplays> ready(size_t wanted) {
    return std::make_shared<MPSReadyReplays>(wanted, [this] {
      begun++;
      while (holds) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      TORCH_CHECK(!fails);
      MPSReadyReplay made;
      made.command_buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue];
      encoded++;
      return made;
    });
  }

  static void wait(const std::function<size_t()>& number, size_t value) {
    for (int i = 0; i < 20000 && number() < value; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(number(), value);
  }

  static void wait(const std::atomic<int>& number, size_t value) {
    wait([&] { return static_cast<size_t>(number); }, value);
  }

  static void wait(const std::shared_ptr<MPSReadyReplays>& replays, size_t value) {
    wait([&] { return replays->count(); }, value);
  }

  id<MTLCommandQueue> queue = nil;
  std::atomic<int> begun{0};
  std::atomic<int> encoded{0};
  std::atomic<bool> holds{false};
  std::atomic<bool> fails{false};
};

TEST_F(MPSReadyReplaysTest, TakesWhatIsReady) {
  const auto replays = ready(2);
  EXPECT_FALSE(replays->take());
  replays->prepare();
  EXPECT_TRUE(replays->take()->command_buffer.get());
  EXPECT_TRUE(replays->take());
  EXPECT_FALSE(replays->take());
  EXPECT_EQ(encoded, 2);
}

TEST_F(MPSReadyReplaysTest, TakeWaitsForTheEncoder) {
  holds = true;
  const auto replays = ready(1);
  replays->prepare();
  wait(begun, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    holds = false;
  });
  EXPECT_TRUE(replays->take());
  EXPECT_EQ(encoded, 1);
  other.join();
}

TEST_F(MPSReadyReplaysTest, DropWaitsForTheEncoder) {
  holds = true;
  auto replays = ready(3);
  replays->prepare();
  wait(begun, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    holds = false;
  });
  replays->drop();
  EXPECT_EQ(encoded, 3);
  EXPECT_EQ(replays->count(), 0);
  replays->prepare();
  EXPECT_TRUE(replays->take());
  replays.reset();
  EXPECT_EQ(encoded, 6);
  other.join();
}

TEST_F(MPSReadyReplaysTest, AfterAnErrorNothingIsPrepared) {
  fails = true;
  const auto replays = ready(1);
  replays->prepare();
  EXPECT_FALSE(replays->take());
  fails = false;
  replays->prepare();
  EXPECT_FALSE(replays->take());
  EXPECT_EQ(begun, 1);
}

TEST_F(MPSReadyReplaysTest, TheLeastRecentlyReplayedGraphLosesItsReplays) {
  std::vector<std::shared_ptr<MPSReadyReplays>> graphs;
  constexpr size_t each = 4;
  constexpr size_t count = MPSReadyReplays::kMostReady / each;
  for (size_t i = 0; i <= count; i++) {
    graphs.push_back(ready(each));
    graphs.back()->prepare();
    wait(encoded, each * (i + 1));
    wait(graphs.back(), each);
  }
  EXPECT_EQ(graphs[0]->count(), 0);
  for (size_t i = 1; i <= count; i++) {
    EXPECT_EQ(graphs[i]->count(), each);
  }
  // one more of the graph that is the next to lose some: that of others
  EXPECT_TRUE(graphs[1]->take());
  graphs[1]->prepare();
  graphs[0]->prepare();
  EXPECT_TRUE(graphs[0]->take());
  EXPECT_EQ(graphs[2]->count(), 0);
  EXPECT_EQ(graphs[3]->count(), each);
}

TEST_F(MPSReadyReplaysTest, TheLastGraphIsPreparedAlthoughOthersWait) {
  holds = true;
  constexpr size_t each = 4;
  std::vector<std::shared_ptr<MPSReadyReplays>> graphs;
  for (size_t i = 0; i <= MPSReadyReplays::kMostReady / each; i++) {
    graphs.push_back(ready(each));
    graphs.back()->prepare();
  }
  holds = false;
  wait(graphs.back(), each);
}

TEST_F(MPSReadyReplaysTest, PreparesOnceACommandBufferIsScheduled) {
  const auto replays = ready(2);
  id<MTLCommandBuffer> command_buffer = [queue commandBuffer];
  replays->prepareAfter(command_buffer);
  EXPECT_EQ(begun, 0);
  [command_buffer commit];
  wait(encoded, 2);
  EXPECT_TRUE(replays->take());
}

TEST_F(MPSReadyReplaysTest, WhatIsDroppedIsNotPreparedLater) {
  auto dropped = ready(1);
  const auto closed = ready(1);
  auto gone = ready(1);
  id<MTLCommandBuffer> command_buffer = [queue commandBuffer];
  for (const auto& replays : {dropped, closed, gone}) {
    replays->prepareAfter(command_buffer);
  }
  dropped->drop();
  closed->close();
  gone.reset();
  std::atomic<int> scheduled{0};
  auto* called = &scheduled;
  [command_buffer addScheduledHandler:^(id<MTLCommandBuffer>) {
    (*called)++;
  }];
  [command_buffer commit];
  wait(scheduled, 1);
  EXPECT_FALSE(dropped->take());
  closed->prepare();
  EXPECT_FALSE(closed->take());
  EXPECT_EQ(begun, 0);
  dropped->prepare();
  EXPECT_TRUE(dropped->take());
}
