// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <thread>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;

static int objects_alive = 0;

@interface MPSSubmissionTestObject : NSObject
@end

@implementation MPSSubmissionTestObject
- (instancetype)init {
  self = [super init];
  objects_alive++;
  return self;
}
- (void)dealloc {
  objects_alive--;
  [super dealloc];
}
@end

/// A thread that says it works for a capture.
class MPSSubmissionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    queue = getCurrentMPSStream()->queue();
    capture = at::addThreadLocalCallback(at::RecordFunctionCallback(nullptr));
    active_capture.observer = capture;
    at::mps::detail::capture_underway = true;
  }

  void TearDown() override {
    at::mps::detail::capture_underway = false;
    active_capture.observer = at::INVALID_CALLBACK_HANDLE;
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
  dispatchRecorded(queue, ^() {
    on_queue = MPSSubmission();
    on_queue = MPSSubmission::current();
  });
  EXPECT_EQ(on_queue->capture, capture);
}

TEST_F(MPSSubmissionTest, OtherThreadsDoNotWorkForIt) {
  std::thread([&] {
    EXPECT_EQ(MPSSubmission::current().capture, 0);
    __block std::optional<MPSSubmission> on_queue;
    dispatch_sync_with_rethrow(queue, ^() {
      on_queue = MPSSubmission::current();
    });
    EXPECT_EQ(on_queue->capture, 0);
    dispatch_sync(queue, ^() {
      on_queue = MPSSubmission::current();
      EXPECT_FALSE(MPSSubmission::mayRaise());
    });
    EXPECT_EQ(on_queue->capture, 0);
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

TEST_F(MPSSubmissionTest, ExceptionsLeaveNoAutoreleasedObjects) {
  EXPECT_THROW(dispatch_sync_with_rethrow(queue,
                                          ^() {
                                            @autoreleasepool {
                                              [[MPSSubmissionTestObject new] autorelease];
                                              throw std::runtime_error("an error");
                                            }
                                          }),
               std::runtime_error);
  EXPECT_EQ(objects_alive, 0);
}

// A block that was submitted before the capture began is part of none.
TEST_F(MPSSubmissionTest, WithoutACaptureBlocksAreNotMarked) {
  at::mps::detail::capture_underway = false;
  std::thread([&] {
    __block std::optional<MPSSubmission> on_queue;
    dispatch_sync_with_rethrow(queue, ^() {
      on_queue = MPSSubmission::current();
      EXPECT_FALSE(MPSSubmission::mayRaise());
    });
    EXPECT_EQ(on_queue->capture, at::INVALID_CALLBACK_HANDLE);
  }).join();
}
