#pragma once

// A kernel as a recorded step, for tests of replays. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <memory>

namespace at::mps {

class MPSRecordedStepsTest : public ::testing::Test {
 protected:
  static constexpr NSUInteger kLength = 8;
  static constexpr NSUInteger kBytes = kLength * sizeof(float);
  using Buffer = MPSRetained<id<MTLBuffer>>;

  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    stream = getCurrentMPSStream();
    library = std::make_unique<native::mps::DynamicMetalShaderLibrary>(R"MTL(
    kernel void add(device const float* in, device float* out, constant float& number,
                    uint index [[thread_position_in_grid]]) {
      out[index] = in[index] + number;
    }
    )MTL");
  }

  Buffer buffer() {
    return [[stream->device() newBufferWithLength:kBytes options:MTLResourceStorageModeShared] autorelease];
  }

  MPSKernelStep add(const Buffer& from, const Buffer& to, float number) {
    MPSKernelStep step;
    step.pipeline = library->getPipelineStateForFunc("add");
    step.bindings.resize(3);
    step.bindings[0].buffer = from;
    step.bindings[1].index = 1;
    step.bindings[1].buffer = to;
    step.bindings[2].index = 2;
    step.bindings[2].holds_bytes = true;
    step.bindings[2].bytes.resize(sizeof(number));
    std::memcpy(step.bindings[2].bytes.data(), &number, sizeof(number));
    step.size = MTLSizeMake(kLength, 1, 1);
    step.threadgroup = MTLSizeMake(kLength, 1, 1);
    return step;
  }

  MPSStream* stream = nullptr;
  std::unique_ptr<native::mps::DynamicMetalShaderLibrary> library;
};

} // namespace at::mps
