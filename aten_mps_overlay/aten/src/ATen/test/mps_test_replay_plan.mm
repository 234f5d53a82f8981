#include <ATen/mps/MPSReplayPlan.h>
#include <ATen/mps/MPSStepEncoder.h>
#include <ATen/test/mps_recorded_steps.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace at::mps;

class MPSReplayPlanTest : public MPSRecordedStepsTest {
 protected:
  void SetUp() override {
    MPSRecordedStepsTest::SetUp();
    for (auto& each : buffers) {
      each = buffer();
    }
  }

  // 0 to 1 by kernels, a copy to 2, and by kernels to 3 again: 10 more than the input.
  std::vector<MPSCommandStep> steps() {
    const auto& [in, middle, copied, out] = buffers;
    return {add(in, middle, 1),
            add(middle, middle, 2),
            MPSCopyStep{middle, copied, kBytes},
            add(copied, out, 3),
            add(out, out, 4)};
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
          watch.watchCommandBuffer();
          MPSStepEncoder encoder(stream, watch, refreshes, nil);
          plan.encode(encoder, nil);
        }
      });
      torch::mps::synchronize();
      const auto* result = static_cast<const float*>([buffers[3].get() contents]);
      EXPECT_EQ(std::vector<float>(result, result + kLength), std::vector<float>(kLength, value + 10));
    }
  }

  Buffer buffers[4];
};

TEST_F(MPSReplayPlanTest, ReplaysEqualTheSteps) {
  expectReplays();
  setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1", 1);
  expectReplays();
  unsetenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS");
}
