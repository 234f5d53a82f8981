#include <ATen/mps/MPSCommandGraph.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

using at::mps::MPSCommandGraph;
using Tensors = std::vector<at::Tensor>;

// Captures `compute` and compares replays on other inputs with eager.
static void checkReplays(
    Tensors inputs,
    size_t kernel_objects,
    const std::function<Tensors(const Tensors&)>& compute) {
  MPSCommandGraph graph;
  graph.captureBegin();
  const auto results = compute(inputs);
  graph.captureEnd();
  EXPECT_EQ(graph.stats().kernel_objects, kernel_objects);
  for (int i = 0; i < 2; i++) {
    for (auto& input : inputs) {
      input.copy_(torch::randn(input.sizes()));
    }
    const auto before = results[0].cpu();
    graph.replay();
    EXPECT_FALSE(torch::equal(results[0].cpu(), before));
    const auto expected = compute(inputs);
    ASSERT_EQ(expected.size(), results.size());
    for (size_t j = 0; j < results.size(); j++) {
      EXPECT_TRUE(torch::equal(results[j].cpu(), expected[j].cpu()));
    }
  }
}

static at::Tensor randomOnDevice(at::IntArrayRef shape) {
  return torch::randn(shape).to(at::kMPS);
}

TEST(MPSKernelObjectsTest, LUFactor) {
  checkReplays({randomOnDevice({5, 5})}, 1, [](const Tensors& inputs) {
    // with other work before and after it
    auto [lu, pivots] = torch::linalg_lu_factor(inputs[0].mul(2));
    return Tensors{lu.add(1), pivots};
  });
}

TEST(MPSKernelObjectsTest, BatchedLUFactor) {
  checkReplays({randomOnDevice({3, 5, 5})}, 3, [](const Tensors& inputs) {
    auto [lu, pivots] = torch::linalg_lu_factor(inputs[0]);
    return Tensors{lu, pivots};
  });
}

TEST(MPSKernelObjectsTest, SolveTriangular) {
  const auto identity = torch::eye(4).to(at::kMPS);
  for (const bool upper : {false, true}) {
    for (const bool left : {false, true}) {
      checkReplays(
          {randomOnDevice({3, 4, 4}), randomOnDevice({3, 4, 4})},
          3,
          [&](const Tensors& inputs) {
            auto a = inputs[0].tril().add(identity, 5);
            return Tensors{torch::linalg_solve_triangular(
                upper ? a.mT().contiguous() : a, inputs[1], upper, left)};
          });
    }
  }
}

static std::string messageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(MPSKernelObjectsTest, SingularMatrixThrowsAtTheNextSynchronization) {
  auto x = torch::eye(3).to(at::kMPS);
  MPSCommandGraph graph;
  graph.captureBegin();
  auto [lu, pivots] = torch::linalg_lu_factor(x);
  graph.captureEnd();
  const std::function<void()> waits[] = {
      torch::mps::synchronize, [lu = lu] { lu.cpu(); }};
  for (const auto& wait : waits) {
    x.zero_();
    graph.replay();
    EXPECT_NE(
        messageOf(wait).find("LU factorization failure"), std::string::npos);
    // once, and the graph can be used as before
    EXPECT_EQ(messageOf(wait), "");
    x.copy_(torch::eye(3).mul(2));
    graph.replay();
    EXPECT_EQ(messageOf(wait), "");
    EXPECT_TRUE(torch::equal(lu.cpu(), torch::eye(3).mul(2)));
  }
}

TEST(MPSKernelObjectsTest, SingularMatrixThrowsInTheCapture) {
  MPSCommandGraph graph;
  graph.captureBegin();
  const auto zeros = torch::zeros({3, 3}, at::device(at::kMPS));
  EXPECT_NE(
      messageOf([&] {
        torch::linalg_lu_factor(zeros);
      }).find("LU factorization failure"),
      std::string::npos);
  graph.captureAbort();
  torch::mps::synchronize();
}
