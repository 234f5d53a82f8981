#include <ATen/mps/MPSStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
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
    stream->finishCheck(stream->expectCheck(), message);
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

TEST_F(MPSDeferredErrorsTest, CopyToTheHostRaises) {
  auto x = torch::ones({4}, at::kMPS);
  find("an error");
  EXPECT_EQ(messageOf([&] { x.cpu(); }), "an error");
  EXPECT_EQ(messageOf([&] { x.cpu(); }), "");
}

TEST_F(MPSDeferredErrorsTest, SynchronizeWaitsForChecksThatWereAnnounced) {
  const auto check = stream->expectCheck();
  std::thread handler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stream->finishCheck(check, "a late error");
  });
  EXPECT_EQ(messageOf(torch::mps::synchronize), "a late error");
  handler.join();
}

TEST_F(MPSDeferredErrorsTest, OnTheQueueItIsLeftForLater) {
  find("an error");
  dispatch_sync(stream->queue(), ^() {
    stream->throwDeferredError();
  });
  EXPECT_EQ(messageOf(torch::mps::synchronize), "an error");
}
