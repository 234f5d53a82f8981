// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;

static const auto kOnDevice = at::device(at::kMPS);
static constexpr int64_t kLength = 4096;

static at::Tensor full(float value) {
  return torch::full({kLength}, value, kOnDevice);
}

static void expectFilledWith(const at::Tensor& tensor, float value) {
  EXPECT_TRUE(torch::equal(tensor.cpu(), torch::full({kLength}, value))) << tensor.cpu()[0] << " is not " << value;
}

static void expectRaised(const std::function<void()>& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "nothing was raised";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

class MPSRawCommandBufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
  }

  MPSCommandGraph graph;
};

TEST_F(MPSRawCommandBufferTest, RawCommandBuffer) {
  auto* stream = getCurrentMPSStream();
  auto x = full(1);
  graph.captureBegin();
  expectRaised([&] { stream->commandBuffer(); }, "took the stream's raw command buffer");
  auto y = x.add(1);
  // The block caught the error.
  expectRaised([&] { graph.captureEnd(); }, "took the stream's raw command buffer");
}

TEST_F(MPSRawCommandBufferTest, RawCommandBufferOnTheQueue) {
  auto* stream = getCurrentMPSStream();
  auto x = full(1);
  void (^take)() = ^() {
    stream->endKernelCoalescing();
    EXPECT_TRUE(stream->commandBuffer());
  };
  graph.captureBegin();
  expectRaised([&] { dispatch_sync_with_rethrow(stream->queue(), take); }, "took the stream's raw command buffer");
  graph.captureAbort();
  // from here an exception would end the process
  graph.captureBegin();
  dispatch_sync(stream->queue(), take);
  auto y = x.add(1);
  expectRaised([&] { graph.captureEnd(); }, "took the stream's raw command buffer");
  expectRaised([&] { graph.replay(); }, "this graph is empty");
}

TEST_F(MPSRawCommandBufferTest, RawCommandBufferOfAnotherThread) {
  auto* stream = getCurrentMPSStream();
  auto x = full(1);
  graph.captureBegin();
  auto y = x.add(1);
  std::thread([&] {
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      EXPECT_TRUE(stream->commandBuffer());
    });
  }).join();
  graph.captureEnd();
  x.fill_(4);
  graph.replay();
  expectFilledWith(y, 5);
}
