#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSStream.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

using at::mps::getCurrentMPSStream;

static std::string messageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

class MPSDeferredErrorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    stream = getCurrentMPSStream();
  }

  void find(const std::string& message) {
    stream->expectCheck();
    stream->deferError(message);
    stream->finishCheck();
  }

  at::mps::MPSStream* stream = nullptr;
};

TEST_F(MPSDeferredErrorsTest, SynchronizeRaisesTheFirstOnce) {
  find("");
  EXPECT_EQ(messageOf(torch::mps::synchronize), "");
  find("the first error");
  find("the second error");
  EXPECT_EQ(messageOf(torch::mps::synchronize), "the first error");
  EXPECT_EQ(messageOf(torch::mps::synchronize), "");
}

TEST_F(MPSDeferredErrorsTest, BlockingCopyRaises) {
  auto x = torch::ones({1 << 16}, at::kMPS);
  auto halves = x.to(at::kHalf);
  auto on_host = torch::ones({4});
  // on a page boundary, where a cast writes to the host's memory itself
  alignas(1 << 14) static float memory[1 << 16];
  auto pages = torch::from_blob(memory, {1 << 16});
  const std::function<void()> copies[] = {
      [&] { x.cpu(); },
      [&] { pages.copy_(halves); },
      [&] { on_host.to(at::kMPS); },
  };
  for (const auto& copy : copies) {
    find("an error");
    EXPECT_EQ(messageOf(copy), "an error");
    EXPECT_EQ(messageOf(copy), "");
  }
}

TEST_F(MPSDeferredErrorsTest, SynchronizeWaitsForChecksThatWereAnnounced) {
  stream->expectCheck();
  std::thread handler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stream->deferError("a late error");
    stream->finishCheck();
  });
  EXPECT_EQ(messageOf(torch::mps::synchronize), "a late error");
  handler.join();
}

TEST_F(MPSDeferredErrorsTest, NothingWaitsForChecksOfLaterWork) {
  stream->expectCheck();
  c10::Event event(at::kMPS);
  event.record(c10::impl::VirtualGuardImpl(at::kMPS).getStream(at::Device(at::kMPS, 0)));
  stream->finishCheck();
  torch::mps::synchronize();
  // a check of a replay of another thread, which commits later
  const std::function<void()> waits[] = {[&] { stream->throwDeferredError(); }, [&] { event.synchronize(); }};
  for (const auto& wait : waits) {
    stream->expectCheck();
    auto waited = std::async(std::launch::async, wait);
    EXPECT_EQ(waited.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    stream->finishCheck();
  }
}

TEST_F(MPSDeferredErrorsTest, ErrorOfAnOpenCheckIsNotLost) {
  stream->expectCheck();
  torch::mps::commit();
  stream->throwDeferredError();
  stream->deferError("an error");
  stream->finishCheck();
  EXPECT_EQ(messageOf(torch::mps::synchronize), "an error");
}

TEST_F(MPSDeferredErrorsTest, EachWayToWaitRaises) {
  const at::Device device(at::kMPS, 0);
  const c10::impl::VirtualGuardImpl guard(at::kMPS);
  c10::Event event(at::kMPS);
  event.record(guard.getStream(device));
  const auto& hooks = at::detail::getMPSHooks();
  const auto id = hooks.acquireEvent(false);
  hooks.recordEvent(id);
  const std::function<void()> ways[] = {
      [&] { guard.synchronizeDevice(0); },
      [&] { event.synchronize(); },
      [&] { hooks.synchronizeEvent(id); },
  };
  for (const auto& wait : ways) {
    find("an error");
    EXPECT_EQ(messageOf(wait), "an error");
    EXPECT_EQ(messageOf(wait), "");
  }
  hooks.releaseEvent(id);
}

TEST_F(MPSDeferredErrorsTest, OnTheQueueItIsLeftForLater) {
  find("an error");
  dispatch_sync(stream->queue(), ^() {
    stream->throwDeferredError();
  });
  EXPECT_EQ(messageOf(torch::mps::synchronize), "an error");
}
