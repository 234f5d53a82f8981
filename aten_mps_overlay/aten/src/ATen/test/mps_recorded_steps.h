#pragma once

// A kernel as a recorded step, for tests of replays. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>
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
    using Kind = MPSEncoderCall::Kind;
    MPSKernelStep step;
    step.dispatches = 1;
    step.data.resize(1);
    std::memcpy(step.data.data(), &number, sizeof(number));
    const uint64_t size[] = {kLength, 1, 1};
    step.data.insert(step.data.end(), size, size + 3);
    step.data.insert(step.data.end(), size, size + 3);
    step.calls = {{Kind::SET_PIPELINE, 0, 0, library->getPipelineStateForFunc("add"), 0},
                  {Kind::SET_BUFFER, 0, 0, from.get(), 0},
                  {Kind::SET_BUFFER, 1, 0, to.get(), 0},
                  {Kind::SET_BYTES, 2, sizeof(number), nil, 0},
                  {Kind::DISPATCH_THREADS, 0, 0, nil, 1}};
    return step;
  }

  MPSStream* stream = nullptr;
  std::unique_ptr<native::mps::DynamicMetalShaderLibrary> library;
};

} // namespace at::mps
