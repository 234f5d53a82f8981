#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

using at::mps::MPSCommandGraph;
using at::native::mps::DynamicMetalShaderLibrary;

static const auto kOnDevice = at::device(at::kMPS);

static void captureInto(
    MPSCommandGraph& graph,
    const std::function<void()>& block,
    std::optional<at::mps::MPSGraphPool> pool = std::nullopt) {
  graph.captureBegin(pool);
  block();
  graph.captureEnd();
}

static void expectEqual(const at::Tensor& seen, const at::Tensor& expected) {
  EXPECT_TRUE(torch::equal(seen.cpu(), expected.cpu()))
      << seen.cpu() << "\n instead of\n"
      << expected.cpu();
}

// Captures `compute` and compares replays on other inputs with eager.
static at::mps::MPSCommandGraphStats checkReplays(
    const std::function<at::Tensor(const at::Tensor&)>& compute) {
  auto x = torch::randn({16, 16}).to(at::kMPS);
  MPSCommandGraph graph;
  at::Tensor y;
  captureInto(graph, [&] { y = compute(x); });
  // the block has run, too
  expectEqual(y, compute(x));
  for (int i = 0; i < 2; i++) {
    x.copy_(torch::randn({16, 16}));
    const auto before = y.cpu();
    graph.replay();
    EXPECT_FALSE(torch::equal(y.cpu(), before));
    expectEqual(y, compute(x));
  }
  EXPECT_EQ(graph.stats().replays, 2);
  return graph.stats();
}

TEST(MPSCommandGraphTest, Kernels) {
  DynamicMetalShaderLibrary library(R"MTL(
  kernel void scale(device const float* in, device float* out, constant float& factor,
                    uint index [[thread_position_in_grid]]) {
    out[index] = in[index] * factor;
  }
  )MTL");
  const auto scale = [&](const at::Tensor& x, float factor) {
    auto y = torch::empty_like(x);
    auto kernel = library.getKernelFunction("scale");
    kernel->runCommandBlock([&] {
      kernel->startEncoding();
      kernel->setArg(0, x);
      kernel->setArg(1, y);
      kernel->setArg(2, factor);
      kernel->dispatch(x.numel());
    });
    return y;
  };
  const auto stats = checkReplays([&](const at::Tensor& x) {
    // the temporary is gone before the replay
    return scale(scale(x, 3), 0.5);
  });
  EXPECT_EQ(stats.kernels, 2);
}

TEST(MPSCommandGraphTest, GraphRuns) {
  const auto stats = checkReplays([](const at::Tensor& x) {
    return torch::softmax(torch::relu(x).mm(x), 1);
  });
  EXPECT_GE(stats.graph_runs, 1);
  EXPECT_GE(stats.executables, 1);
}

TEST(MPSCommandGraphTest, Copies) {
  const auto stats = checkReplays(
      [](const at::Tensor& x) { return torch::empty_like(x).copy_(x); });
  EXPECT_EQ(stats.copies, 1);
}

TEST(MPSCommandGraphTest, Fills) {
  auto x = torch::ones({64}, kOnDevice);
  MPSCommandGraph graph;
  captureInto(graph, [&] { x.zero_(); });
  EXPECT_EQ(graph.stats().fills, 1);
  x.copy_(torch::full({64}, 5.f));
  graph.replay();
  expectEqual(x, torch::zeros({64}));
}

TEST(MPSCommandGraphTest, HostIsReadAgain) {
  auto host = torch::ones({64});
  auto x = torch::empty({64}, kOnDevice);
  MPSCommandGraph graph;
  at::Tensor y;
  captureInto(graph, [&] {
    x.copy_(host);
    y = x.mul(2);
  });
  EXPECT_EQ(graph.stats().host_refreshes, 1);
  host.fill_(3);
  graph.replay();
  // that replay has read it
  host.fill_(4);
  expectEqual(y, torch::full({64}, 6.f));
  graph.replay();
  expectEqual(y, torch::full({64}, 8.f));
}

TEST(MPSCommandGraphTest, UpdatesInPlaceHappenInEachReplay) {
  auto x = torch::ones({64}, kOnDevice);
  MPSCommandGraph graph;
  captureInto(graph, [&] { x.add_(1); });
  for (int i = 0; i < 10; i++) {
    graph.replay();
    // in order with the work of others, and without a wait between
    x.mul_(2);
  }
  auto expected = torch::full({64}, 2.f);
  for (int i = 0; i < 10; i++) {
    expected.add_(1).mul_(2);
  }
  expectEqual(x, expected);
}

TEST(MPSCommandGraphTest, TemporariesAreNotHandedToOthers) {
  auto x = torch::ones({4096}, kOnDevice);
  MPSCommandGraph graph;
  at::Tensor y;
  captureInto(graph, [&] { y = x.add(1).mul(2).add(3); });
  std::vector<at::Tensor> others;
  for (int i = 0; i < 16; i++) {
    others.push_back(torch::full({4096}, 100.f, kOnDevice));
  }
  x.fill_(10);
  graph.replay();
  expectEqual(y, torch::full({4096}, 25.f));
  for (const auto& other : others) {
    expectEqual(other, torch::full({4096}, 100.f));
  }
}

TEST(MPSCommandGraphTest, MemoryIsGivenBack) {
  auto x = torch::ones({1 << 20}, kOnDevice);
  torch::mps::synchronize();
  const auto* allocator = at::mps::getIMPSAllocator();
  const auto before = allocator->getCurrentAllocatedMemory();
  MPSCommandGraph graph;
  // no operator with a number: blocks for those are freed by a handler
  captureInto(graph, [&] { x.neg().relu_(); });
  EXPECT_GT(graph.stats().pool_bytes, 0);
  EXPECT_GE(allocator->getCurrentAllocatedMemory(), before + (4 << 20));
  graph.replay();
  torch::mps::synchronize();
  graph.reset();
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), before);
  EXPECT_THROW(graph.replay(), c10::Error);
  // and it can be used again
  captureInto(graph, [&] { x.fill_(3); });
  x.zero_();
  graph.replay();
  expectEqual(x, torch::full({1 << 20}, 3.f));
}

TEST(MPSCommandGraphTest, GraphsShareAPool) {
  auto x = torch::ones({4096}, kOnDevice);
  MPSCommandGraph first, second;
  at::Tensor y, z;
  captureInto(first, [&] { y = x.add(1).mul(2); });
  captureInto(
      second, [&] { z = y.add(1).mul(2); }, first.pool());
  EXPECT_EQ(first.pool(), second.pool());
  x.fill_(5);
  first.replay();
  second.replay();
  expectEqual(y, torch::full({4096}, 12.f));
  expectEqual(z, torch::full({4096}, 26.f));
}

TEST(MPSCommandGraphTest, ReplayInACaptureBecomesPartOfIt) {
  auto x = torch::ones({64}, kOnDevice);
  MPSCommandGraph inner, outer;
  at::Tensor y, z;
  captureInto(inner, [&] { y = x.add(1); });
  captureInto(outer, [&] {
    inner.replay();
    z = y.mul(2);
  });
  inner.reset();
  x.fill_(5);
  outer.replay();
  expectEqual(z, torch::full({64}, 12.f));
}

TEST(MPSCommandGraphTest, StorageThatMovedIsNamed) {
  auto x = torch::ones({2, 3}, kOnDevice);
  MPSCommandGraph graph;
  at::Tensor y;
  captureInto(graph, [&] { y = x.add(1); });
  x.set_data(torch::ones({2, 3}, kOnDevice));
  try {
    graph.replay();
    FAIL() << "replayed on memory that the tensor has no more";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("[2, 3]"), std::string::npos)
        << error.what();
  }
}

TEST(MPSCommandGraphTest, CapturesExcludeEachOther) {
  auto x = torch::ones({64}, kOnDevice);
  MPSCommandGraph graph, other;
  at::Tensor y;
  EXPECT_FALSE(at::mps::isCurrentStreamCapturing());
  captureInto(graph, [&] {
    EXPECT_TRUE(at::mps::isCurrentStreamCapturing());
    EXPECT_THROW(other.captureBegin(), c10::Error);
    EXPECT_THROW(graph.captureBegin(), c10::Error);
    EXPECT_THROW(graph.replay(), c10::Error);
    // and the capture goes on
    y = x.add(1);
  });
  EXPECT_FALSE(at::mps::isCurrentStreamCapturing());
  EXPECT_THROW(graph.captureBegin(), c10::Error);
  EXPECT_THROW(graph.captureEnd(), c10::Error);
  EXPECT_THROW(other.replay(), c10::Error);
  x.fill_(5);
  graph.replay();
  expectEqual(y, torch::full({64}, 6.f));
}

TEST(MPSCommandGraphTest, AbandonedCaptureLeavesNothing) {
  auto x = torch::ones({1 << 20}, kOnDevice);
  torch::mps::synchronize();
  const auto* allocator = at::mps::getIMPSAllocator();
  const auto before = allocator->getCurrentAllocatedMemory();
  MPSCommandGraph graph;
  graph.captureBegin();
  x.neg();
  graph.captureAbort();
  EXPECT_FALSE(at::mps::isCurrentStreamCapturing());
  EXPECT_THROW(graph.replay(), c10::Error);
  {
    MPSCommandGraph gone;
    gone.captureBegin();
    x.neg();
  }
  EXPECT_FALSE(at::mps::isCurrentStreamCapturing());
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), before);
  expectEqual(x.add(1), torch::full({1 << 20}, 2.f));
  at::Tensor y;
  captureInto(graph, [&] { y = x.add(1); });
  x.fill_(5);
  graph.replay();
  expectEqual(y, torch::full({1 << 20}, 6.f));
}
