// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <variant>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;

/// What a capture records, without a graph that replays it.
class MPSRecordingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    x = torch::rand({64}).to(at::kMPS);
  }

  static std::shared_ptr<const MPSRecording> record(const std::function<void()>& work) {
    auto* stream = getCurrentMPSStream();
    __block std::unique_ptr<MPSGraphCapture> capture;
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      stream->endKernelCoalescing();
      capture = std::make_unique<MPSGraphCapture>(/*freeze_host_reads=*/false,
                                                  MPSGraphPool{0, 0},
                                                  std::vector<at::Generator>{},
                                                  /*check_input_liveness=*/false);
      stream->setCapture(capture.get());
    });
    capture->recordThisThread();
    work();
    capture->recordNoThread();
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      stream->endKernelCoalescing();
      stream->setCapture(nullptr);
      capture->stop();
    });
    return capture->finish(stream->device(), stream->compilationDescriptor());
  }

  template <typename Step>
  static size_t count(const MPSRecording& recording) {
    size_t found = 0;
    for (const auto& step : recording.steps) {
      found += std::holds_alternative<Step>(step);
    }
    return found;
  }

  at::Tensor x;
};

TEST_F(MPSRecordingTest, StepsOfOperators) {
  auto host = torch::rand({64});
  at::Tensor y;
  const auto recording = record([&] {
    y = torch::lgamma(x); // a kernel
    y = y + y; // a run of an MPSGraph
    x.copy_(host); // from the host
    y.slice(0, 0, 32).copy_(x.slice(0, 32)); // the second half to the first
  });
  EXPECT_EQ(count<MPSKernelStep>(*recording), 1);
  EXPECT_EQ(count<MPSHostRefreshStep>(*recording), 1);
  EXPECT_EQ(count<MPSCopyStep>(*recording), 1);
  ASSERT_GE(count<MPSGraphRunStep>(*recording), 1);
  EXPECT_EQ(recording->operators.size(), recording->steps.size());
  EXPECT_EQ(recording->operators.front(), "aten::lgamma");
  for (const auto& step : recording->steps) {
    if (const auto* run = std::get_if<MPSGraphRunStep>(&step)) {
      EXPECT_TRUE(run->executable.get());
    }
    if (const auto* copy = std::get_if<MPSCopyStep>(&step)) {
      EXPECT_EQ(copy->source_offset, 32 * sizeof(float));
      EXPECT_EQ(copy->destination_offset, 0);
    }
  }
  // the block ran, too
  EXPECT_TRUE(torch::equal(y.slice(0, 0, 32).cpu(), host.slice(0, 32)));
}

TEST_F(MPSRecordingTest, MemoryThatWasThereBeforeIsPinned) {
  const auto recording = record([&] { x.add_(1); });
  EXPECT_TRUE(recording->pinned.contains(x.storage().data()));
  recording->checkTensors();
  x.resize_({1 << 20});
  EXPECT_THROW(recording->checkTensors(), c10::Error);
}

TEST_F(MPSRecordingTest, WorkOfOthersIsNotRecorded) {
  auto other = torch::ones({64}, at::kMPS);
  const auto recording = record([&] { std::thread([&] { other.add_(1); }).join(); });
  EXPECT_TRUE(recording->steps.empty());
  EXPECT_TRUE(torch::equal(other.cpu(), torch::full({64}, 2.0f)));
}

TEST_F(MPSRecordingTest, StatusOfTheThread) {
  EXPECT_FALSE(isCurrentStreamCapturing());
  record([] {
    EXPECT_TRUE(isCurrentStreamCapturing());
    std::thread([] {
      EXPECT_FALSE(isCurrentStreamCapturing());
      EXPECT_TRUE(isCaptureUnderway());
    }).join();
  });
  EXPECT_FALSE(isCaptureUnderway());
}
