#include <ATen/mps/MPSCommandGraph.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

using at::mps::MPSCommandGraph;

TEST(MPSGraphDumpTest, EmptyGraph) {
  ASSERT_TRUE(torch::mps::is_available());
  MPSCommandGraph graph;
  const auto dump = graph.dump();
  EXPECT_TRUE(dump.steps.empty());
  EXPECT_TRUE(dump.buffers.empty());
}

TEST(MPSGraphDumpTest, StepsAndBuffers) {
  ASSERT_TRUE(torch::mps::is_available());
  auto x = torch::rand({64}).to(at::kMPS);
  MPSCommandGraph graph;
  graph.captureBegin();
  auto y = torch::lgamma(x);
  auto z = y + y;
  graph.captureEnd();
  const auto dump = graph.dump();
  ASSERT_EQ(dump.steps.size(), 2);
  EXPECT_EQ(dump.steps[0].kind, "kernel");
  EXPECT_EQ(dump.steps[0].op, "aten::lgamma");
  EXPECT_EQ(dump.steps[1].kind, "graph_run");
  EXPECT_EQ(dump.steps[1].op, "aten::add");
  ASSERT_FALSE(dump.steps[1].tensors.empty());
  EXPECT_EQ(dump.steps[1].tensors[0].second[0], "float32[64]");
  ASSERT_FALSE(dump.buffers.empty());
  EXPECT_EQ(dump.buffers[0].memory, "kept");
}
