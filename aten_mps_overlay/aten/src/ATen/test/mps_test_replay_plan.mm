#include <ATen/mps/MPSReplayPlan.h>
#include <ATen/mps/MPSStepEncoder.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace at::mps;
using at::native::mps::DynamicMetalShaderLibrary;

static constexpr NSUInteger kLength = 8;
static constexpr NSUInteger kBytes = kLength * sizeof(float);

class MPSReplayPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    stream = getCurrentMPSStream();
    library = std::make_unique<DynamicMetalShaderLibrary>(R"MTL(
    kernel void add(device const float* in, device float* out, constant float& number,
                    uint index [[thread_position_in_grid]]) {
      out[index] = in[index] + number;
    }
    )MTL");
    for (auto& each : buffers) {
      each = [[stream->device() newBufferWithLength:kBytes options:MTLResourceStorageModeShared] autorelease];
    }
  }

  MPSKernelStep add(size_t from, size_t to, float number) {
    MPSKernelStep step;
    step.pipeline = library->getPipelineStateForFunc("add");
    step.bindings.resize(3);
    step.bindings[0].buffer = buffers[from];
    step.bindings[1].index = 1;
    step.bindings[1].buffer = buffers[to];
    step.bindings[2].index = 2;
    step.bindings[2].holds_bytes = true;
    step.bindings[2].bytes.resize(sizeof(number));
    std::memcpy(step.bindings[2].bytes.data(), &number, sizeof(number));
    step.size = MTLSizeMake(kLength, 1, 1);
    step.threadgroup = MTLSizeMake(kLength, 1, 1);
    return step;
  }

  // 0 to 1 by kernels, a copy to 2, and by kernels to 3 again: 10 more than the input.
  std::vector<MPSCommandStep> steps() {
    return {add(0, 1, 1), add(1, 1, 2), MPSCopyStep{buffers[1], buffers[2], kBytes}, add(2, 3, 3), add(3, 3, 4)};
  }

  void expectReplays() {
    const auto all = steps();
    const MPSReplayRefreshes refreshes(all);
    MPSStepOrder order;
    for (const auto& step : all) {
      order.push_back(&step);
    }
    const MPSReplayPlan made(order, refreshes, stream->device());
    const auto& plan = made;
    for (const float value : {1.0f, 5.0f}) {
      std::fill_n(static_cast<float*>([buffers[0].get() contents]), kLength, value);
      std::memset([buffers[3].get() contents], 1, kBytes);
      dispatch_sync(stream->queue(), ^() {
        @autoreleasepool {
          stream->endKernelCoalescing();
          MPSReplayWatch watch(stream, nil);
          watch.look();
          MPSStepEncoder encoder(stream, watch, refreshes, nil);
          plan.encode(stream, watch, encoder, nil);
        }
      });
      torch::mps::synchronize();
      const auto* result = static_cast<const float*>([buffers[3].get() contents]);
      EXPECT_EQ(std::vector<float>(result, result + kLength), std::vector<float>(kLength, value + 10));
    }
  }

  MPSStream* stream = nullptr;
  std::unique_ptr<DynamicMetalShaderLibrary> library;
  MPSRetained<id<MTLBuffer>> buffers[4];
};

TEST_F(MPSReplayPlanTest, ReplaysEqualTheSteps) {
  expectReplays();
  setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1", 1);
  expectReplays();
  unsetenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS");
}
