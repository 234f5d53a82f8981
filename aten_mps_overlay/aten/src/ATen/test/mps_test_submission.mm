// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

// asserts in debug builds
#undef NDEBUG
#include <ATen/mps/MPSLockOrder.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/mps/MPSSubmission.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <thread>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;

/// A thread that says it works for a capture.
class MPSSubmissionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    queue = getCurrentMPSStream()->queue();
    capture = at::addThreadLocalCallback(at::RecordFunctionCallback(nullptr));
    setCaptureUnderway(capture);
  }

  void TearDown() override {
    setCaptureUnderway(at::INVALID_CALLBACK_HANDLE);
    at::removeCallback(capture);
  }

  dispatch_queue_t queue = nil;
  at::CallbackHandle capture = at::INVALID_CALLBACK_HANDLE;
};

TEST_F(MPSSubmissionTest, TheQueueKnowsWhoseTheBlockIs) {
  EXPECT_EQ(MPSSubmission::current().capture, capture);
  __block std::optional<MPSSubmission> on_queue;
  dispatch_sync_with_rethrow(queue, ^() {
    on_queue = MPSSubmission::current();
    EXPECT_TRUE(MPSSubmission::mayRaise());
  });
  EXPECT_EQ(on_queue->capture, capture);
  EXPECT_TRUE(on_queue->is_known);
}

TEST_F(MPSSubmissionTest, OtherThreadsDoNotWorkForIt) {
  std::thread([&] {
    EXPECT_EQ(MPSSubmission::current().capture, 0);
    __block std::optional<MPSSubmission> on_queue;
    dispatch_sync_with_rethrow(queue, ^() {
      on_queue = MPSSubmission::current();
    });
    EXPECT_EQ(on_queue->capture, 0);
    EXPECT_TRUE(on_queue->is_known);
    // by dispatch_sync() alone it is not known whose the block is
    dispatch_sync(queue, ^() {
      on_queue = MPSSubmission::current();
      EXPECT_FALSE(MPSSubmission::mayRaise());
    });
    EXPECT_FALSE(on_queue->is_known);
  }).join();
}

TEST_F(MPSSubmissionTest, OperatorOfTheBlock) {
  const at::ThreadLocalState state;
  dispatch_sync_with_rethrow(queue, ^() {
    setInnermostOperator("aten::replayed");
    EXPECT_STREQ(MPSSubmission::current().innermost_operator, "aten::replayed");
    // what a thread does off the queue meanwhile is not the replay's
    std::thread([&] {
      const at::ThreadLocalStateGuard guard(state);
      EXPECT_EQ(MPSSubmission::current().capture, capture);
      EXPECT_EQ(MPSSubmission::current().innermost_operator, nullptr);
    }).join();
  });
  EXPECT_EQ(MPSSubmission::current().innermost_operator, nullptr);
}

TEST_F(MPSSubmissionTest, Pause) {
  {
    const MPSCapturePause outer;
    const MPSCapturePause inner;
    EXPECT_EQ(MPSSubmission::current().capture, 0);
  }
  EXPECT_EQ(MPSSubmission::current().capture, capture);
}

TEST_F(MPSSubmissionTest, Exceptions) {
  EXPECT_THROW(dispatch_sync_with_rethrow(queue,
                                          ^() {
                                            throw std::runtime_error("an error");
                                          }),
               std::runtime_error);
  dispatch_sync_with_rethrow(queue, ^() {
    EXPECT_EQ(MPSSubmission::current().capture, capture);
  });
}

TEST(MPSLockOrderTest, DownwardsAndAgain) {
  MPSMutex<MPSLockRank::GRAPH> graph;
  MPSMutex<MPSLockRank::CAPTURE> capture;
  for (int i = 0; i < 2; i++) {
    std::lock_guard outer(graph);
    std::lock_guard inner(capture);
  }
}

TEST(MPSLockOrderTest, UpwardsAndBeside) {
  MPSMutex<MPSLockRank::UNDERWAY> underway;
  MPSMutex<MPSLockRank::CAPTURE> capture, beside;
  std::lock_guard held(capture);
  EXPECT_THROW(underway.lock(), c10::Error);
  EXPECT_THROW(beside.lock(), c10::Error);
}
