// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <vector>

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
  }

  static at::Tensor product(const at::Tensor& left, const at::Tensor& right) {
    auto result = at::empty({kSize, kSize}, left.options());
    auto* stream = getCurrentMPSStream();
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      @autoreleasepool {
        MPSShape* shape = @[ @(kSize), @(kSize) ];
        MPSNDArray* a = at::native::mps::getMPSNDArray(left, shape);
        MPSNDArray* b = at::native::mps::getMPSNDArray(right, shape);
        MPSNDArray* c = at::native::mps::getMPSNDArray(result, shape);
        MPSNDArrayMatrixMultiplication* kernel =
            [[[MPSNDArrayMatrixMultiplication alloc] initWithDevice:stream->device() sourceCount:2] autorelease];
        encodeAndRecordInEncoder(stream, ^(id<MTLCommandBuffer> buffer, id<MTLComputeCommandEncoder> encoder) {
          [kernel encodeToCommandEncoder:encoder commandBuffer:buffer sourceArrays:@[ a, b ] destinationArray:c];
        });
      }
    });
    return result;
  }

  // The same kernel before, between and after.
  static at::Tensor work(const at::Tensor& x, const at::Tensor& y) {
    auto first = product(torch::lgamma(x), y);
    auto second = product(torch::lgamma(first), product(x, y));
    return torch::lgamma(second).add(first);
  }

  // Replays of the graph give what eager gives for other inputs.
  static void checkReplays(MPSCommandGraph& graph, at::Tensor x, const at::Tensor& y, const at::Tensor& result) {
    for (int i = 0; i < 2; i++) {
      x.copy_(torch::randn({kSize, kSize}).mul(2));
      y.copy_(torch::randn({kSize, kSize}));
      const auto before = result.cpu();
      result.fill_(7);
      graph.replay();
      EXPECT_FALSE(torch::equal(result.cpu(), before));
      EXPECT_TRUE(torch::allclose(result.cpu(), work(x, y).cpu(), 0, 0, /*equal_nan=*/true));
    }
  }
};

TEST_F(MPSEncoderObjectsTest, EagerComputes) {
  auto x = randomOnDevice();
  auto y = randomOnDevice();
  EXPECT_TRUE(torch::allclose(product(x, y).cpu(), x.cpu().matmul(y.cpu()), 1e-4, 1e-4));
}

TEST_F(MPSEncoderObjectsTest, Replays) {
  auto x = randomOnDevice();
  auto y = randomOnDevice();
  MPSCommandGraph graph;
  graph.captureBegin();
  auto result = work(x, y);
  graph.captureEnd();
  EXPECT_EQ(graph.stats().kernel_objects, 3);
  checkReplays(graph, x, y, result);
}

TEST_F(MPSEncoderObjectsTest, FirstAndLastStep) {
  auto x = randomOnDevice();
  auto y = randomOnDevice();
  MPSCommandGraph graph;
  graph.captureBegin();
  auto result = product(x, y);
  graph.captureEnd();
  x.copy_(torch::randn({kSize, kSize}));
  result.fill_(7);
  graph.replay();
  EXPECT_TRUE(torch::equal(result.cpu(), product(x, y).cpu()));
}

TEST_F(MPSEncoderObjectsTest, ReplayedInAnotherCapture) {
  auto x = randomOnDevice();
  auto y = randomOnDevice();
  MPSCommandGraph inner;
  inner.captureBegin();
  auto result = work(x, y);
  inner.captureEnd();
  MPSCommandGraph outer;
  outer.captureBegin();
  inner.replay();
  outer.captureEnd();
  EXPECT_EQ(outer.stats().kernel_objects, 3);
  checkReplays(outer, x, y, result);
}

TEST_F(MPSEncoderObjectsTest, WithAndWithoutEachMechanism) {
  for (const char* with : {"", "concurrent_kernels", "indirect_commands", "concurrent_kernels,indirect_commands"}) {
    for (const char* without : {"", "elided_bindings", "early_commits"}) {
      setenv("PYTORCH_MPS_GRAPH_WITH", with, 1);
      setenv("PYTORCH_MPS_GRAPH_WITHOUT", without, 1);
      auto x = randomOnDevice();
      auto y = randomOnDevice();
      MPSCommandGraph graph;
      graph.captureBegin();
      auto result = work(x, y);
      graph.captureEnd();
      checkReplays(graph, x, y, result);
    }
  }
  unsetenv("PYTORCH_MPS_GRAPH_WITH");
  unsetenv("PYTORCH_MPS_GRAPH_WITHOUT");
}
