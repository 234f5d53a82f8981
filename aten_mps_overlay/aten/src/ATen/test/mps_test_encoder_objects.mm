// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphKernelObjects.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;

static constexpr int64_t kSize = 16;

static at::Tensor randomOnDevice() {
  return torch::randn({kSize, kSize}).to(at::kMPS);
}

/// MPS kernel objects that go on in the stream's compute encoder.
class MPSEncoderObjectsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    x = randomOnDevice();
    y = randomOnDevice();
  }

  // Captures what `run` does, and returns what it gives.
  static at::Tensor capture(MPSCommandGraph& graph, const std::function<at::Tensor()>& run) {
    graph.captureBegin();
    auto result = run();
    graph.captureEnd();
    return result;
  }

  static at::Tensor product(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias = {}) {
    auto result = at::empty({kSize, kSize}, left.options());
    auto* stream = getCurrentMPSStream();
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      @autoreleasepool {
        MPSShape* shape = @[ @(kSize), @(kSize) ];
        MPSNDArray* a = at::native::mps::getMPSNDArray(left, shape);
        MPSNDArray* b = at::native::mps::getMPSNDArray(right, shape);
        MPSNDArray* c = at::native::mps::getMPSNDArray(result, shape);
        MPSNDArrayMatrixMultiplication* kernel =
            [[[MPSNDArrayMatrixMultiplication alloc] initWithDevice:stream->device()
                                                        sourceCount:bias.defined() ? 3 : 2] autorelease];
        NSArray* sources = bias.defined() ? @[ a, b, at::native::mps::getMPSNDArray(bias, shape) ] : @[ a, b ];
        encodeAndRecordInEncoder(stream, ^(id<MTLCommandBuffer> buffer, id<MTLComputeCommandEncoder> encoder) {
          [kernel encodeToCommandEncoder:encoder commandBuffer:buffer sourceArrays:sources destinationArray:c];
        });
      }
    });
    return result;
  }

  // The same kernel before, between and after.
  at::Tensor work() const {
    auto first = product(torch::lgamma(x), y);
    auto second = product(torch::lgamma(first), product(x, y));
    return torch::lgamma(second).add(first);
  }

  // Replays of the graph give what eager gives for other inputs.
  void checkReplays(MPSCommandGraph& graph, const at::Tensor& result) {
    for (int i = 0; i < 2; i++) {
      x.copy_(torch::randn({kSize, kSize}).mul(2));
      y.copy_(torch::randn({kSize, kSize}));
      const auto before = result.cpu();
      result.fill_(7);
      graph.replay();
      EXPECT_FALSE(torch::equal(result.cpu(), before));
      EXPECT_TRUE(torch::allclose(result.cpu(), work().cpu(), 0, 0, /*equal_nan=*/true));
    }
  }

  at::Tensor x, y;
};

TEST_F(MPSEncoderObjectsTest, EagerComputes) {
  EXPECT_TRUE(torch::allclose(product(x, y).cpu(), x.cpu().matmul(y.cpu()), 1e-4, 1e-4));
}

TEST_F(MPSEncoderObjectsTest, Replays) {
  MPSCommandGraph graph;
  auto result = capture(graph, [&] { return work(); });
  EXPECT_EQ(graph.stats().at("kernel_objects").toInt(), 3);
  checkReplays(graph, result);
}

TEST_F(MPSEncoderObjectsTest, FirstAndLastStep) {
  MPSCommandGraph graph;
  auto result = capture(graph, [&] { return product(x, y); });
  x.copy_(torch::randn({kSize, kSize}));
  result.fill_(7);
  graph.replay();
  EXPECT_TRUE(torch::equal(result.cpu(), product(x, y).cpu()));
}

TEST_F(MPSEncoderObjectsTest, ReplayedInAnotherCapture) {
  MPSCommandGraph inner;
  auto result = capture(inner, [&] { return work(); });
  MPSCommandGraph outer;
  outer.captureBegin();
  inner.replay();
  outer.captureEnd();
  EXPECT_EQ(outer.stats().at("kernel_objects").toInt(), 3);
  checkReplays(outer, result);
}

// Its second dispatch reads what the first one writes, which only an encoder that runs them in order allows.
TEST_F(MPSEncoderObjectsTest, DispatchesThatDependOnEachOther) {
  MPSCommandGraph graph;
  auto result = capture(graph, [&] { return torch::lgamma(product(torch::lgamma(x), y, x)); });
  for (int i = 0; i < 3; i++) {
    x.copy_(torch::randn({kSize, kSize}).mul(2));
    result.fill_(7);
    graph.replay();
    const auto expected = torch::lgamma(product(torch::lgamma(x), y, x));
    EXPECT_TRUE(torch::allclose(result.cpu(), expected.cpu(), 0, 0, /*equal_nan=*/true));
  }
}

TEST_F(MPSEncoderObjectsTest, BesideIndirectCommands) {
  setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1", 1);
  MPSCommandGraph graph;
  auto result = capture(graph, [&] { return work(); });
  unsetenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS");
  checkReplays(graph, result);
}
