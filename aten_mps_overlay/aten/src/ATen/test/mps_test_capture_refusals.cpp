#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

using at::mps::MPSCommandGraph;

class MPSCaptureRefusalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    x = torch::arange(1, 5, at::device(at::kMPS).dtype(at::kFloat));
  }

  // What a capture refuses must leave the stream as if there had been none.
  void expectRefused(
      const std::function<void()>& action,
      const std::string& words) {
    MPSCommandGraph graph;
    graph.captureBegin();
    auto y = x.mul(2);
    try {
      action();
      ADD_FAILURE() << "not refused";
    } catch (const c10::Error& error) {
      const std::string message = error.what_without_backtrace();
      EXPECT_NE(message.find(words), std::string::npos) << message;
    }
    graph.captureAbort();
    EXPECT_FALSE(at::mps::isCurrentStreamCapturing());
    expectCaptureWorks();
  }

  void expectCaptureWorks() {
    x.fill_(1);
    MPSCommandGraph graph;
    graph.captureBegin();
    auto y = x.mul(2);
    graph.captureEnd();
    EXPECT_EQ(y.sum().item<float>(), 8);
    x.fill_(5);
    graph.replay();
    EXPECT_EQ(y.sum().item<float>(), 40);
  }

  at::Tensor x;
};

static const char* const kHostRead = "the host read device data";

TEST_F(MPSCaptureRefusalsTest, Item) {
  expectRefused([&] { x.sum().item(); }, kHostRead);
}

TEST_F(MPSCaptureRefusalsTest, CopyToTheHost) {
  expectRefused([&] { x.cpu(); }, kHostRead);
  auto host = torch::empty({4});
  expectRefused([&] { host.copy_(x, /*non_blocking=*/true); }, kHostRead);
}

TEST_F(MPSCaptureRefusalsTest, ShapeThatDependsOnValues) {
  expectRefused([&] { x.nonzero(); }, kHostRead);
  expectRefused([&] { x.masked_select(x > 1); }, kHostRead);
}

TEST_F(MPSCaptureRefusalsTest, Condition) {
  expectRefused([&] { (void)x.sum().is_nonzero(); }, kHostRead);
  expectRefused([&] { (void)x.equal(x + 1); }, kHostRead);
}

TEST_F(MPSCaptureRefusalsTest, Fallback) {
  expectRefused(
      [&] {
        torch::linalg_svd(x.view({2, 2}));
      },
      "the operator 'aten::linalg_svd' falls back to the CPU");
}

TEST_F(MPSCaptureRefusalsTest, RawCommandBuffer) {
  expectRefused(
      [&] { torch::mps::get_command_buffer(); }, "command buffer was taken");
}

TEST_F(MPSCaptureRefusalsTest, Events) {
  const auto& hooks = at::detail::getMPSHooks();
  const auto event = hooks.acquireEvent(/*enable_timing=*/false);
  hooks.recordEvent(event);
  expectRefused([&] { hooks.recordEvent(event); }, "an event was recorded");
  expectRefused([&] { hooks.waitForEvent(event); }, "waits for an event");
  hooks.releaseEvent(event);
}

TEST_F(MPSCaptureRefusalsTest, Profiler) {
  const auto& hooks = at::detail::getMPSHooks();
  expectRefused(
      [&] { hooks.profilerStartTrace("event", /*waitUntilCompleted=*/false); },
      "the profiler was started");
  hooks.profilerStartTrace("event", /*waitUntilCompleted=*/false);
  MPSCommandGraph graph;
  EXPECT_THROW(graph.captureBegin(), c10::Error);
  hooks.profilerStopTrace();
  expectCaptureWorks();
}

// A wait reads nothing, so there is nothing to refuse.
TEST_F(MPSCaptureRefusalsTest, SynchronizeIsNotRefused) {
  MPSCommandGraph graph;
  graph.captureBegin();
  auto y = x.mul(2);
  torch::mps::synchronize();
  auto z = y.add(1);
  graph.captureEnd();
  x.fill_(5);
  graph.replay();
  EXPECT_EQ(z.sum().item<float>(), 44);
}

TEST_F(MPSCaptureRefusalsTest, ReadIsFrozen) {
  MPSCommandGraph graph;
  graph.captureBegin(std::nullopt, /*freeze_host_reads=*/true);
  auto y = x.mul(x.sum().item());
  graph.captureEnd();
  EXPECT_EQ(y.sum().item<float>(), 100);
  x.fill_(5);
  graph.replay();
  // ten was the sum in the capture
  EXPECT_EQ(y.sum().item<float>(), 200);
  expectRefused([&] { x.cpu(); }, kHostRead);
}
