#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSIndirectCommands.h>
#include <ATen/mps/MPSKernelPipelines.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

using namespace at::mps;
using at::native::mps::DynamicMetalShaderLibrary;

static constexpr NSUInteger kLength = 8;
static constexpr NSUInteger kBytes = kLength * sizeof(float);

class MPSIndirectCommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    device = MPSDevice::getInstance()->device();
    library = std::make_unique<DynamicMetalShaderLibrary>(R"MTL(
    kernel void add(device const float* in, device float* out, uint index [[thread_position_in_grid]]) {
      out[index] = in[index] + 1;
    }
    )MTL");
    MTLHeapDescriptor* descriptor = [[MTLHeapDescriptor new] autorelease];
    descriptor.size = 1 << 20;
    descriptor.storageMode = MTLStorageModeShared;
    descriptor.type = MTLHeapTypePlacement;
    heap = [device newHeapWithDescriptor:descriptor];
  }

  void TearDown() override {
    [heap release];
  }

  MPSRetained<id<MTLBuffer>> buffer() {
    return [[device newBufferWithLength:kBytes options:MTLResourceStorageModeShared] autorelease];
  }

  MPSRetained<id<MTLBuffer>> placed(size_t offset) {
    return [[heap newBufferWithLength:kBytes options:MTLResourceStorageModeShared offset:offset] autorelease];
  }

  MPSKernelStep add(const MPSRetained<id<MTLBuffer>>& from, const MPSRetained<id<MTLBuffer>>& to) {
    MPSKernelStep step;
    step.pipeline = library->getPipelineStateForFunc("add");
    step.bindings.resize(2);
    step.bindings[0].buffer = from;
    step.bindings[1].index = 1;
    step.bindings[1].buffer = to;
    step.size = MTLSizeMake(kLength, 1, 1);
    step.threadgroup = MTLSizeMake(kLength, 1, 1);
    return step;
  }

  static MPSMemoryHazards::Arguments argumentsOf(const MPSKernelStep& step) {
    MPSMemoryHazards::Arguments arguments;
    for (const auto& binding : step.bindings) {
      arguments.emplace_back(binding.buffer.get(), binding.offset);
    }
    return arguments;
  }

  static bool waits(MPSMemoryHazards& hazards, const MPSKernelStep& step) {
    return hazards.add(step, argumentsOf(step));
  }

  id<MTLDevice> device = nil;
  id<MTLHeap> heap = nil;
  std::unique_ptr<DynamicMetalShaderLibrary> library;
};

TEST_F(MPSIndirectCommandsTest, ReflectionTellsReadsFromWrites) {
  const auto access = kernelAccess(library->getPipelineStateForFunc("add"));
  EXPECT_TRUE(access.reads & 1);
  EXPECT_EQ(access.writes & 3, 2);
}

TEST_F(MPSIndirectCommandsTest, Hazards) {
  const auto a = buffer(), b = buffer(), c = buffer(), d = buffer();
  MPSMemoryHazards hazards;
  EXPECT_FALSE(waits(hazards, add(a, b)));
  EXPECT_FALSE(waits(hazards, add(a, c))) << "two readers";
  EXPECT_TRUE(waits(hazards, add(b, d))) << "reads what was written";
  EXPECT_FALSE(waits(hazards, add(a, c))) << "the barrier came in between";
  EXPECT_TRUE(waits(hazards, add(d, a))) << "writes what was read";
  EXPECT_TRUE(hazards.addUnknown());
  EXPECT_TRUE(waits(hazards, add(b, c))) << "anything may have been written";
  hazards.clear();
  EXPECT_FALSE(waits(hazards, add(b, c)));
}

TEST_F(MPSIndirectCommandsTest, HazardsOfBuffersOnTheSameMemory) {
  const auto a = buffer();
  const auto first = placed(0), same = placed(0), far = placed(1 << 16);
  MPSMemoryHazards hazards;
  EXPECT_FALSE(waits(hazards, add(a, first)));
  EXPECT_FALSE(waits(hazards, add(a, far)));
  EXPECT_TRUE(waits(hazards, add(a, same)));
}

TEST_F(MPSIndirectCommandsTest, ExecutesWhatItHolds) {
  std::vector<MPSRetained<id<MTLBuffer>>> buffers;
  for (size_t i = 0; i <= MPSIndirectCommands::kFewest; i++) {
    buffers.push_back(buffer());
  }
  std::vector<MPSKernelStep> steps;
  for (size_t i = 0; i < MPSIndirectCommands::kFewest; i++) {
    steps.push_back(add(buffers[i], buffers[i + 1]));
    EXPECT_TRUE(MPSIndirectCommands::canHold(steps.back()));
  }
  std::vector<MPSIndirectKernel> kernels;
  for (const auto& step : steps) {
    kernels.push_back({&step, argumentsOf(step), /*waits=*/true});
  }
  const auto commands = MPSIndirectCommands::plan(device, kernels);
  ASSERT_TRUE(commands);
  ASSERT_TRUE(commands->make(device, kernels));
  id<MTLCommandQueue> queue = [[device newCommandQueue] autorelease];
  for (const float value : {3.0f, 8.0f}) {
    auto* input = static_cast<float*>([buffers.front().get() contents]);
    std::fill_n(input, kLength, value);
    @autoreleasepool {
      id<MTLCommandBuffer> command_buffer = [queue commandBuffer];
      id<MTLComputeCommandEncoder> encoder = [command_buffer computeCommandEncoder];
      commands->encode(encoder);
      [encoder endEncoding];
      [command_buffer commit];
      [command_buffer waitUntilCompleted];
    }
    const auto* result = static_cast<const float*>([buffers.back().get() contents]);
    for (NSUInteger i = 0; i < kLength; i++) {
      EXPECT_EQ(result[i], value + MPSIndirectCommands::kFewest);
    }
  }
}

TEST_F(MPSIndirectCommandsTest, WhatCommandsCanNotHold) {
  auto step = add(buffer(), buffer());
  step.threadgroup_memory.push_back({0, 64});
  EXPECT_FALSE(MPSIndirectCommands::canHold(step));
  step = add(buffer(), buffer());
  step.size_kind = MPSKernelStep::Size::INDIRECT;
  EXPECT_FALSE(MPSIndirectCommands::canHold(step));
}
