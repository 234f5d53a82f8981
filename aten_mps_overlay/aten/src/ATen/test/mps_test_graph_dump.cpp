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
  EXPECT_TRUE(dump.at("steps").toListRef().empty());
  EXPECT_TRUE(dump.at("buffers").toListRef().empty());
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
  const auto steps = dump.at("steps").toListRef();
  ASSERT_EQ(steps.size(), 2);
  const auto kernel = steps[0].toGenericDict();
  EXPECT_EQ(kernel.at("kind"), "kernel");
  EXPECT_EQ(kernel.at("op"), "aten::lgamma");
  const auto run = steps[1].toGenericDict();
  EXPECT_EQ(run.at("kind"), "graph_run");
  EXPECT_EQ(run.at("op"), "aten::add");
  EXPECT_EQ(run.at("inputs").toListRef()[0], "float32[64]");
  const auto buffers = dump.at("buffers").toListRef();
  ASSERT_FALSE(buffers.empty());
  EXPECT_EQ(buffers[0].toGenericDict().at("memory"), "kept");
}
