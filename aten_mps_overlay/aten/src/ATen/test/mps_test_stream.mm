#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

using at::mps::getCurrentMPSStream;
using at::native::mps::DynamicMetalShaderLibrary;

// A number in memory that host and GPU share, so that looking at it takes no
// further call of the stream.
class Counter {
 public:
  Counter()
      : library_(R"MTL(
  kernel void increment(device uint& number) {
    number += 1;
  }
  )MTL"),
        number_([getCurrentMPSStream()->device() newBufferWithLength:sizeof(uint32_t)
                                                             options:MTLResourceStorageModeShared]) {
    *static_cast<uint32_t*>([number_ contents]) = 0;
  }
  ~Counter() {
    [number_ release];
  }

  uint32_t value() const {
    return *static_cast<const uint32_t*>([number_ contents]);
  }

  // Must be called on the stream's queue.
  void encodeIncrement() {
    id<MTLComputeCommandEncoder> encoder = getCurrentMPSStream()->commandEncoder();
    [encoder setComputePipelineState:library_.getPipelineStateForFunc("increment")];
    [encoder setBuffer:number_ offset:0 atIndex:0];
    [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  }

 private:
  DynamicMetalShaderLibrary library_;
  id<MTLBuffer> number_;
};

static void onQueue(const std::function<void()>& work) {
  dispatch_sync(getCurrentMPSStream()->queue(), ^() {
    @autoreleasepool {
      work();
    }
  });
}

// One thread is in the middle of encoding when another one calls `finish`.
static void finishBesideAnEncodingThread(const std::function<void()>& finish) {
  ASSERT_TRUE(torch::mps::is_available());
  Counter counter;
  std::atomic<bool> encoding{false};
  std::atomic<bool> finished{false};
  bool finished_early = false;
  std::thread other([&] {
    onQueue([&] {
      counter.encodeIncrement();
      encoding = true;
      // time enough to end the encoder that is still in use
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      finished_early = finished;
      if (!finished_early) {
        counter.encodeIncrement();
      }
    });
  });
  while (!encoding) {
    std::this_thread::yield();
  }
  finish();
  finished = true;
  other.join();
  EXPECT_FALSE(finished_early);
  torch::mps::synchronize();
  EXPECT_EQ(counter.value(), 2);
}

TEST(MPSStreamTest, SynchronizeBesideAnEncodingThread) {
  finishBesideAnEncodingThread(torch::mps::synchronize);
}

TEST(MPSStreamTest, CommitBesideAnEncodingThread) {
  finishBesideAnEncodingThread(torch::mps::commit);
}

TEST(MPSStreamTest, SynchronizeDeviceBesideAnEncodingThread) {
  finishBesideAnEncodingThread([] { c10::impl::VirtualGuardImpl(at::kMPS).synchronizeDevice(0); });
}

TEST(MPSStreamTest, SynchronizeOnTheQueue) {
  ASSERT_TRUE(torch::mps::is_available());
  Counter counter;
  auto* stream = getCurrentMPSStream();
  EXPECT_FALSE(stream->isOnQueue());
  // must not wait for itself
  onQueue([&] {
    EXPECT_TRUE(stream->isOnQueue());
    counter.encodeIncrement();
    torch::mps::commit();
    counter.encodeIncrement();
    torch::mps::synchronize();
    EXPECT_EQ(counter.value(), 2);
  });
  EXPECT_FALSE(stream->isOnQueue());
}

TEST(MPSStreamTest, CompletedHandlerOnTheQueue) {
  ASSERT_TRUE(torch::mps::is_available());
  static std::atomic<int> calls{0};
  auto* stream = getCurrentMPSStream();
  const auto add = [&] {
    stream->addCompletedHandler(^(id<MTLCommandBuffer>) {
      calls++;
    });
  };
  add();
  // must not wait for itself
  onQueue(add);
  torch::mps::synchronize();
  // handlers may run a little later
  for (int i = 0; i < 1000 && calls < 2; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(calls, 2);
}

TEST(MPSStreamTest, ManyThreads) {
  ASSERT_TRUE(torch::mps::is_available());
  constexpr int rounds = 100;
  std::atomic<bool> done{false};
  std::thread committing([&] {
    while (!done) {
      torch::mps::commit();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> encoding;
  for (int i = 0; i < 4; i++) {
    encoding.emplace_back([] {
      Counter counter;
      for (int round = 1; round <= rounds; round++) {
        onQueue([&] { counter.encodeIncrement(); });
        torch::mps::synchronize();
        EXPECT_EQ(counter.value(), round);
      }
    });
  }
  for (auto& thread : encoding) {
    thread.join();
  }
  done = true;
  committing.join();
}
