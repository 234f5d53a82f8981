#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSRecordingEncoder.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace at::mps;
using at::native::mps::DynamicMetalShaderLibrary;

namespace {

constexpr NSUInteger kLength = 8;

struct Recorder final : MPSKernelRecorder {
  void recordKernel(MPSKernelStep step) override {
    steps.push_back(std::move(step));
  }
  void useBuffer(id<MTLBuffer> buffer) override {
    used.push_back(buffer);
  }
  std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) override {
    float number = 0;
    std::memcpy(&number, bytes, std::min(length, sizeof(number)));
    return number == 20 ? refreshed : nullptr;
  }
  void refuse(const std::string& reason) override {
    refused.push_back(reason);
  }

  std::vector<MPSKernelStep> steps;
  std::vector<id<MTLBuffer>> used;
  std::vector<std::string> refused;
  // for bytes that hold a 20
  std::shared_ptr<const MPSRefreshedBytes> refreshed = std::make_shared<MPSRefreshedBytes>();
};

} // namespace

class MPSRecordingEncoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    device = MPSDevice::getInstance()->device();
    queue = [device newCommandQueue];
    library = std::make_unique<DynamicMetalShaderLibrary>(R"MTL(
    kernel void add(device const float* in, device float* out, constant float& number,
                    uint index [[thread_position_in_grid]]) {
      out[index] = in[index] + number;
    }
    kernel void multiply(device const float* in, device float* out, constant float& number,
                         uint index [[thread_position_in_grid]]) {
      out[index] = in[index] * number;
    }
    )MTL");
    in = newBuffer({1, 2, 3, 4, 5, 6, 7, 8});
    out = newBuffer({});
    other = newBuffer({});
    begin();
  }

  void TearDown() override {
    [encoder release];
    for (id object : {(id)commands, (id)in, (id)out, (id)other, (id)queue}) {
      [object release];
    }
  }

  id<MTLBuffer> newBuffer(std::vector<float> numbers) {
    numbers.resize(kLength);
    return [device newBufferWithBytes:numbers.data()
                               length:kLength * sizeof(float)
                              options:MTLResourceStorageModeShared];
  }

  // Puts a recording encoder before that of a new command buffer.
  void begin() {
    @autoreleasepool {
      commands = [[queue commandBuffer] retain];
      auto* recording = [[MPSRecordingEncoder alloc] initWithEncoder:[commands computeCommandEncoder]
                                                            recorder:&recorder];
      encoder = (id<MTLComputeCommandEncoder>)recording;
    }
  }

  void run() {
    [encoder endEncoding];
    [commands commit];
    [commands waitUntilCompleted];
  }

  id<MTLComputePipelineState> pipeline(const std::string& name) {
    return library->getPipelineStateForFunc(name);
  }

  void setAll(float number) {
    [encoder setComputePipelineState:pipeline("add")];
    [encoder setBuffer:in offset:0 atIndex:0];
    [encoder setBuffer:out offset:0 atIndex:1];
    [encoder setBytes:&number length:sizeof(number) atIndex:2];
  }

  void dispatch(NSUInteger length = kLength) {
    [encoder dispatchThreads:MTLSizeMake(length, 1, 1) threadsPerThreadgroup:MTLSizeMake(length, 1, 1)];
  }

  // Encodes a step with an encoder that was given nothing else, as a replay does.
  void runAlone(const MPSKernelStep& step) {
    @autoreleasepool {
      id<MTLCommandBuffer> buffer = [queue commandBuffer];
      id<MTLComputeCommandEncoder> fresh = [buffer computeCommandEncoder];
      [fresh setComputePipelineState:step.pipeline.get()];
      for (const auto& binding : step.bindings) {
        if (binding.holds_bytes) {
          [fresh setBytes:binding.bytes.data() length:binding.bytes.size() atIndex:binding.index];
        } else {
          [fresh setBuffer:binding.buffer.get() offset:binding.offset atIndex:binding.index];
        }
      }
      [fresh dispatchThreads:step.size threadsPerThreadgroup:step.threadgroup];
      [fresh endEncoding];
      [buffer commit];
      [buffer waitUntilCompleted];
    }
  }

  static std::vector<float> numbersOf(id<MTLBuffer> buffer) {
    const auto* first = static_cast<const float*>([buffer contents]);
    return {first, first + kLength};
  }

  id<MTLDevice> device = nil;
  id<MTLCommandQueue> queue = nil;
  id<MTLCommandBuffer> commands = nil;
  id<MTLComputeCommandEncoder> encoder = nil;
  id<MTLBuffer> in = nil;
  id<MTLBuffer> out = nil;
  id<MTLBuffer> other = nil;
  std::unique_ptr<DynamicMetalShaderLibrary> library;
  Recorder recorder;
};

TEST_F(MPSRecordingEncoderTest, ForwardedCallsCompute) {
  setAll(10);
  dispatch();
  run();
  EXPECT_EQ(numbersOf(out), (std::vector<float>{11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(recorder.steps.size(), 1);
  EXPECT_TRUE(recorder.refused.empty());
}

TEST_F(MPSRecordingEncoderTest, BytesThatAreRefreshed) {
  setAll(10);
  float number = 20;
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  dispatch();
  dispatch();
  number = 30;
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  dispatch();
  auto known = std::make_shared<MPSRefreshedBytes>();
  known->length = sizeof(number);
  [(MPSRecordingEncoder*)encoder setRefreshedBytes:known newBytes:&number atIndex:2];
  dispatch();
  run();
  EXPECT_EQ(numbersOf(out)[0], 31);
  ASSERT_EQ(recorder.steps.size(), 4);
  EXPECT_EQ(recorder.steps[0].bindings[2].refreshed, recorder.refreshed);
  EXPECT_EQ(recorder.steps[1].bindings[2].refreshed, recorder.refreshed);
  EXPECT_EQ(recorder.steps[2].bindings[2].refreshed, nullptr);
  EXPECT_EQ(recorder.steps[3].bindings[2].refreshed, known);
  EXPECT_FALSE(recorder.steps[0].bindings[2] == recorder.steps[2].bindings[2]);
  EXPECT_TRUE(recorder.refused.empty());
}

TEST_F(MPSRecordingEncoderTest, DispatchHoldsTheWholeState) {
  setAll(10);
  dispatch();
  // each of these changes one thing and relies on all the others
  [encoder setComputePipelineState:pipeline("multiply")];
  dispatch();
  [encoder setBuffer:other offset:0 atIndex:1];
  dispatch();
  [encoder setBufferOffset:4 * sizeof(float) atIndex:0];
  dispatch(4);
  run();
  ASSERT_EQ(recorder.steps.size(), 4);
  for (const auto& step : recorder.steps) {
    ASSERT_EQ(step.bindings.size(), 3);
  }
  EXPECT_EQ(numbersOf(out), (std::vector<float>{10, 20, 30, 40, 50, 60, 70, 80}));
  EXPECT_EQ(numbersOf(other), (std::vector<float>{50, 60, 70, 80, 50, 60, 70, 80}));

  for (NSUInteger i = 0; i < kLength; i++) {
    static_cast<float*>([in contents])[i] = static_cast<float>(100 + i);
  }
  runAlone(recorder.steps[0]);
  EXPECT_EQ(numbersOf(out), (std::vector<float>{110, 111, 112, 113, 114, 115, 116, 117}));
  runAlone(recorder.steps[3]);
  EXPECT_EQ(numbersOf(other), (std::vector<float>{1040, 1050, 1060, 1070, 50, 60, 70, 80}));
  runAlone(recorder.steps[2]);
  EXPECT_EQ(numbersOf(other), (std::vector<float>{1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070}));
}

TEST_F(MPSRecordingEncoderTest, BytesAreCopied) {
  float number = 10;
  setAll(0);
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  number = 20;
  dispatch();
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  number = 30;
  dispatch();
  run();
  runAlone(recorder.steps.at(0));
  EXPECT_EQ(numbersOf(out)[0], 11);
  runAlone(recorder.steps.at(1));
  EXPECT_EQ(numbersOf(out)[0], 21);
}

TEST_F(MPSRecordingEncoderTest, BytesAndBuffersReplaceEachOther) {
  id<MTLBuffer> number = newBuffer({5});
  setAll(10);
  [encoder setBuffer:number offset:0 atIndex:2];
  dispatch();
  const float bytes = 20;
  [encoder setBytes:&bytes length:sizeof(bytes) atIndex:2];
  dispatch();
  run();
  runAlone(recorder.steps.at(0));
  EXPECT_EQ(numbersOf(out)[0], 6);
  runAlone(recorder.steps.at(1));
  EXPECT_EQ(numbersOf(out)[0], 21);
  [number release];
}

TEST_F(MPSRecordingEncoderTest, SizesAndThreadgroups) {
  setAll(10);
  [encoder setThreadgroupMemoryLength:64 atIndex:0];
  [encoder dispatchThreadgroups:MTLSizeMake(2, 1, 1) threadsPerThreadgroup:MTLSizeMake(4, 1, 1)];
  const uint32_t threadgroups[] = {1, 1, 1};
  id<MTLBuffer> size = [device newBufferWithBytes:threadgroups
                                           length:sizeof(threadgroups)
                                          options:MTLResourceStorageModeShared];
  [encoder setThreadgroupMemoryLength:32 atIndex:0];
  [encoder dispatchThreadgroupsWithIndirectBuffer:size
                             indirectBufferOffset:0
                            threadsPerThreadgroup:MTLSizeMake(kLength, 1, 1)];
  run();
  ASSERT_EQ(recorder.steps.size(), 2);
  const auto& direct = recorder.steps[0];
  EXPECT_EQ(direct.size_kind, MPSKernelStep::Size::THREADGROUPS);
  EXPECT_EQ(direct.size.width, 2);
  EXPECT_EQ(direct.threadgroup.width, 4);
  ASSERT_EQ(direct.threadgroup_memory.size(), 1);
  EXPECT_EQ(direct.threadgroup_memory[0].length, 64);
  const auto& indirect = recorder.steps[1];
  EXPECT_EQ(indirect.size_kind, MPSKernelStep::Size::INDIRECT);
  EXPECT_EQ(indirect.indirect_buffer.get(), size);
  ASSERT_EQ(indirect.threadgroup_memory.size(), 1);
  EXPECT_EQ(indirect.threadgroup_memory[0].length, 32);
  [size release];
}

TEST_F(MPSRecordingEncoderTest, BarrierBelongsToTheNextDispatch) {
  setAll(10);
  dispatch();
  [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
  dispatch();
  dispatch();
  run();
  ASSERT_EQ(recorder.steps.size(), 3);
  EXPECT_EQ(recorder.steps[0].barrier, 0);
  EXPECT_EQ(recorder.steps[1].barrier, MTLBarrierScopeBuffers);
  EXPECT_EQ(recorder.steps[2].barrier, 0);
}

TEST_F(MPSRecordingEncoderTest, RecorderIsToldOfEachBuffer) {
  setAll(10);
  [encoder useResource:other usage:MTLResourceUsageRead];
  dispatch();
  run();
  EXPECT_EQ(recorder.used, (std::vector<id<MTLBuffer>>{in, out, other}));
  ASSERT_EQ(recorder.steps.at(0).resources.size(), 1);
  EXPECT_EQ(recorder.steps[0].resources[0].resource.get(), other);
}

TEST_F(MPSRecordingEncoderTest, UnknownSelectorIsRefusedByName) {
  auto* descriptor = [[MTLHeapDescriptor alloc] init];
  descriptor.size = 1 << 20;
  id<MTLHeap> heap = [device newHeapWithDescriptor:descriptor];
  setAll(10);
  [encoder useHeap:heap];
  dispatch();
  run();
  ASSERT_EQ(recorder.refused.size(), 1);
  EXPECT_NE(recorder.refused[0].find("'useHeap:'"), std::string::npos) << recorder.refused[0];
  // and still reached the encoder, as did all else
  EXPECT_EQ(numbersOf(out)[0], 11);
  [heap release];
  [descriptor release];
}

TEST_F(MPSRecordingEncoderTest, LabelsAreNoSteps) {
  [encoder setLabel:@"label"];
  [encoder pushDebugGroup:@"group"];
  [encoder insertDebugSignpost:@"signpost"];
  [encoder popDebugGroup];
  EXPECT_TRUE([[encoder label] isEqualToString:@"label"]);
  run();
  EXPECT_TRUE(recorder.steps.empty());
  EXPECT_TRUE(recorder.refused.empty());
}
