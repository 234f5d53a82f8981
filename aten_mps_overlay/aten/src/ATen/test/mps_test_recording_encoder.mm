#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSDevice.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

using namespace at::mps;
using at::native::mps::DynamicMetalShaderLibrary;

namespace {

constexpr NSUInteger kLength = 8;

struct Recorder final : MPSKernelRecorder {
  MPSKernelStep& beginKernels() override {
    return steps.emplace_back();
  }
  void recordWork() override {
    work++;
  }
  void keepObject(id object) override {
    kept.push_back(object);
  }
  std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) override {
    float number = 0;
    std::memcpy(&number, bytes, std::min(length, sizeof(number)));
    return number == 20 ? refreshed : nullptr;
  }
  void refuse(const std::string& reason) override {
    refused.push_back(reason);
  }

  std::deque<MPSKernelStep> steps;
  size_t work = 0;
  std::vector<id> kept;
  std::vector<std::string> refused;
  // for bytes that hold a 20
  std::shared_ptr<const MPSRefreshedBytes> refreshed =
      std::make_shared<MPSRefreshedBytes>(MPSRefreshedBytes{nullptr, sizeof(float)});
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

  // Sends the recorded calls to a new encoder, as a replay does.
  void replay() {
    ASSERT_EQ(recorder.steps.size(), 1);
    const auto& step = recorder.steps[0];
    @autoreleasepool {
      id<MTLCommandBuffer> buffer = [queue commandBuffer];
      id<MTLComputeCommandEncoder> fresh = [buffer computeCommandEncoder];
      for (const auto& call : step.calls) {
        encodeCall(fresh, step, call);
      }
      [fresh endEncoding];
      [buffer commit];
      [buffer waitUntilCompleted];
    }
  }

  std::vector<MPSEncoderCall::Kind> kinds() const {
    std::vector<MPSEncoderCall::Kind> kinds;
    for (const auto& call : recorder.steps.at(0).calls) {
      kinds.push_back(call.kind);
    }
    return kinds;
  }

  static void write(id<MTLBuffer> buffer, float first) {
    for (NSUInteger i = 0; i < kLength; i++) {
      static_cast<float*>([buffer contents])[i] = first + static_cast<float>(i);
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
  EXPECT_EQ(recorder.work, 1);
  EXPECT_TRUE(recorder.refused.empty());
  write(in, 101);
  replay();
  EXPECT_EQ(numbersOf(out), (std::vector<float>{111, 112, 113, 114, 115, 116, 117, 118}));
}

TEST_F(MPSRecordingEncoderTest, BytesThatAreRefreshed) {
  setAll(10);
  const float number = 20;
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  dispatch();
  auto known = std::make_shared<MPSRefreshedBytes>();
  known->length = sizeof(number);
  [(MPSRecordingEncoder*)encoder setRefreshedBytes:known newBytes:&number atIndex:2];
  dispatch();
  run();
  EXPECT_EQ(numbersOf(out)[0], 21);
  const auto& step = recorder.steps.at(0);
  EXPECT_EQ(step.refreshed, (std::vector<std::shared_ptr<const MPSRefreshedBytes>>{recorder.refreshed, known}));
  EXPECT_EQ(step.calls[4].kind, MPSEncoderCall::Kind::SET_REFRESHED_BYTES);
  EXPECT_EQ(step.calls[4].value, 0);
  EXPECT_EQ(step.calls[6].value, 1);
  EXPECT_EQ(step.calls[6].index, 2);
  EXPECT_TRUE(recorder.refused.empty());
}

TEST_F(MPSRecordingEncoderTest, StateStaysUntilItIsReplaced) {
  setAll(10);
  dispatch();
  // Each of these changes one thing and relies on all the others.
  [encoder setComputePipelineState:pipeline("multiply")];
  dispatch();
  [encoder setBuffer:other offset:0 atIndex:1];
  dispatch();
  [encoder setBufferOffset:4 * sizeof(float) atIndex:0];
  dispatch(4);
  run();
  EXPECT_EQ(recorder.work, 4);
  EXPECT_EQ(numbersOf(out), (std::vector<float>{10, 20, 30, 40, 50, 60, 70, 80}));
  EXPECT_EQ(numbersOf(other), (std::vector<float>{50, 60, 70, 80, 50, 60, 70, 80}));
  write(in, 100);
  replay();
  EXPECT_EQ(numbersOf(out), (std::vector<float>{1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070}));
  EXPECT_EQ(numbersOf(other), (std::vector<float>{1040, 1050, 1060, 1070, 1040, 1050, 1060, 1070}));
}

TEST_F(MPSRecordingEncoderTest, BytesAreCopied) {
  setAll(10);
  float number = 25;
  [encoder setBytes:&number length:sizeof(number) atIndex:2];
  number = 30;
  dispatch();
  run();
  write(out, 0);
  replay();
  EXPECT_EQ(numbersOf(out)[0], 26);
}

TEST_F(MPSRecordingEncoderTest, SeveralBuffersBySingleCalls) {
  setAll(10);
  const id<MTLBuffer> buffers[] = {in, other};
  const NSUInteger offsets[] = {4 * sizeof(float), 0};
  [encoder setBuffers:buffers offsets:offsets withRange:NSMakeRange(0, 2)];
  const id<MTLResource> resources[] = {in, other};
  [encoder useResources:resources count:2 usage:MTLResourceUsageRead];
  [encoder memoryBarrierWithResources:resources count:2];
  dispatch(4);
  run();
  write(other, 0);
  replay();
  EXPECT_EQ(numbersOf(other), (std::vector<float>{15, 16, 17, 18, 4, 5, 6, 7}));
  using Kind = MPSEncoderCall::Kind;
  EXPECT_EQ(kinds(),
            (std::vector<Kind>{Kind::SET_PIPELINE,
                               Kind::SET_BUFFER,
                               Kind::SET_BUFFER,
                               Kind::SET_BYTES,
                               Kind::SET_BUFFERS,
                               Kind::USE_RESOURCES,
                               Kind::BARRIER_FOR_RESOURCES,
                               Kind::DISPATCH_THREADS}));
}

TEST_F(MPSRecordingEncoderTest, SizesAndThreadgroups) {
  setAll(10);
  [encoder setThreadgroupMemoryLength:64 atIndex:0];
  [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(4, 1, 1)];
  const uint32_t threadgroups[] = {2, 1, 1};
  id<MTLBuffer> size = [device newBufferWithBytes:threadgroups
                                           length:sizeof(threadgroups)
                                          options:MTLResourceStorageModeShared];
  [encoder setBuffer:other offset:0 atIndex:1];
  [encoder dispatchThreadgroupsWithIndirectBuffer:size
                             indirectBufferOffset:0
                            threadsPerThreadgroup:MTLSizeMake(3, 1, 1)];
  run();
  write(out, 0);
  write(other, 0);
  replay();
  EXPECT_EQ(numbersOf(out), (std::vector<float>{11, 12, 13, 14, 4, 5, 6, 7}));
  EXPECT_EQ(numbersOf(other), (std::vector<float>{11, 12, 13, 14, 15, 16, 6, 7}));
  [size release];
}

TEST_F(MPSRecordingEncoderTest, EachCallIsOneCallOfAReplay) {
  setAll(10);
  for (int i = 0; i < 3; i++) {
    [encoder useResource:other usage:MTLResourceUsageRead];
    [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
    dispatch();
  }
  run();
  EXPECT_EQ(recorder.steps.at(0).calls.size(), 4 + 3 * 3);
}

TEST_F(MPSRecordingEncoderTest, ObjectsAreKept) {
  setAll(10);
  [encoder useResource:other usage:MTLResourceUsageRead];
  dispatch();
  run();
  EXPECT_EQ(recorder.kept, (std::vector<id>{pipeline("add"), in, out, other}));
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
