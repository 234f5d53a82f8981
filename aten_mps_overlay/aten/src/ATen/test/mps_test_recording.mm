// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>
#include <objc/runtime.h>

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

  static std::shared_ptr<const MPSCommandGraphRecording> record(const std::function<void()>& work) {
    auto* stream = getCurrentMPSStream();
    __block std::unique_ptr<MPSCommandGraphCapture> capture;
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      stream->endKernelCoalescing();
      capture = std::make_unique<MPSCommandGraphCapture>(/*freeze_host_reads=*/false,
                                                         MPSCommandGraphPool{0, 0},
                                                         /*draws_from_default_only=*/false,
                                                         /*check_input_liveness=*/false);
    });
    capture->recordThisThread();
    work();
    capture->recordNoThread();
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      stream->endKernelCoalescing();
      capture->stop();
    });
    return capture->finish();
  }

  template <typename Step>
  static size_t count(const MPSCommandGraphRecording& recording) {
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
  EXPECT_EQ(recording->origins.size(), recording->steps.size());
  EXPECT_STREQ(recording->origins.front().op, "aten::lgamma");
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

static MPSGraphExecutable* compileNothing(id, SEL, id, id, id, id, id) {
  return nil;
}

TEST_F(MPSRecordingTest, GraphsThatCanNotBeCompiledRaiseAtOnce) {
  setProgramLine([]() -> MPSProgramFrame { return std::make_shared<c10::GatheredContext>(); },
                 [](const MPSProgramFrame&) { return std::string("model.py:3 (forward)"); });
  const SEL compile = @selector(compileWithDevice:feeds:targetTensors:targetOperations:compilationDescriptor:);
  Method method = class_getInstanceMethod([MPSGraph class], compile);
  const IMP original = class_replaceMethod(
      [MPSGraph class], compile, reinterpret_cast<IMP>(compileNothing), method_getTypeEncoding(method));
  const auto in = torch::rand({31}).to(at::kMPS); // No other test has compiled a graph of this size.
  auto y = torch::zeros_like(in);
  std::string error;
  const auto block = [&] {
    try {
      at::add_out(y, in, in);
    } catch (const c10::Error& raised) {
      error = raised.what_without_backtrace();
    }
  };
  EXPECT_THROW(record(block), c10::Error);
  class_replaceMethod([MPSGraph class], compile, original, method_getTypeEncoding(method));
  setProgramLine(nullptr, nullptr);
  EXPECT_EQ(error,
            "torch.mps graph capture: an MPSGraph could not be compiled to an executable, in aten::add, at model.py:3 "
            "(forward). Move the operator out of the capture.");
  EXPECT_TRUE(torch::equal(y.cpu(), (in + in).cpu()));
}

TEST_F(MPSRecordingTest, MemoryThatWasThereBeforeIsPinned) {
  const auto recording = record([&] { x.add_(1); });
  EXPECT_TRUE(recording->pinned.contains(x.storage().data()));
  recording->inputs.check();
  x.resize_({1 << 20});
  EXPECT_THROW(recording->inputs.check(), c10::Error);
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
