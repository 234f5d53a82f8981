#include <ATen/mps/MPSAllocatorInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using PoolId = at::mps::IMPSAllocator::CapturePoolId;

class MPSAllocatorPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    allocator = at::mps::getIMPSAllocator();
    allocator->emptyCache();
    before = allocator->getCurrentAllocatedMemory();
    allocator->retainPool(pool);
  }

  void TearDown() override {
    if (retained) {
      release();
    }
    // a scalar's block is freed by a handler of the command buffer
    torch::mps::synchronize();
    for (int i = 0; i < 1000 && allocator->getCurrentAllocatedMemory() > before;
         i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(allocator->getCurrentAllocatedMemory(), before);
  }

  void release() {
    retained = false;
    allocator->releasePool(pool);
  }

  static torch::Tensor allocate(int64_t kilobytes) {
    return torch::empty({kilobytes * 256}, at::device(at::kMPS));
  }

  static void expectFilledWith(const torch::Tensor& tensor, float value) {
    EXPECT_TRUE(torch::equal(tensor.cpu(), torch::full(tensor.sizes(), value)));
  }

  bool isOfPool(const torch::Tensor& tensor) {
    return allocator->captureOf(tensor.storage().data()) != 0;
  }

  void end() {
    allocator->unpin(allocator->endAllocateToPool());
  }

  // The filter of a capture that everything is allocated for.
  static bool anything() {
    return true;
  }

  static constexpr size_t kKilobyte = 1024;
  const PoolId pool{0, 12345};
  at::mps::IMPSAllocator* allocator = nullptr;
  size_t before = 0;
  bool retained = true;
};

TEST_F(MPSAllocatorPoolTest, AllocatesFromThePoolBetweenBeginAndEnd) {
  auto earlier = allocate(64);
  allocator->beginAllocateToPool(pool, anything);
  auto inside = allocate(64);
  constexpr size_t large_size = 20480;
  auto large = allocate(large_size);
  end();
  auto later = allocate(64);
  EXPECT_FALSE(isOfPool(earlier));
  EXPECT_TRUE(isOfPool(inside));
  EXPECT_TRUE(isOfPool(large));
  EXPECT_FALSE(isOfPool(later));
  EXPECT_GE(allocator->getPoolSize(pool), (large_size + 64) * kKilobyte);
  EXPECT_EQ(allocator->getPoolSize({0, 54321}), 0);
}

TEST_F(MPSAllocatorPoolTest, AllocatesElsewhereWhatTheFilterRefuses) {
  bool is_of_capture = true;
  allocator->beginAllocateToPool(pool, [&] { return is_of_capture; });
  auto inside = allocate(64);
  is_of_capture = false;
  auto outside = allocate(64);
  is_of_capture = true;
  auto again = allocate(64);
  end();
  EXPECT_TRUE(isOfPool(inside));
  EXPECT_FALSE(isOfPool(outside));
  EXPECT_TRUE(isOfPool(again));
}

TEST_F(MPSAllocatorPoolTest, PoolsTakeNoMoreThanTheirBlocks) {
  auto earlier = allocate(1); // the heap has room for more
  const auto driver_before = allocator->getDriverAllocatedMemory();
  allocator->beginAllocateToPool(pool, anything);
  auto inside = allocate(1);
  end();
  EXPECT_TRUE(isOfPool(inside));
  EXPECT_EQ(allocator->getPoolSize(pool), kKilobyte);
  EXPECT_EQ(allocator->getDriverAllocatedMemory(), driver_before);
}

TEST_F(MPSAllocatorPoolTest, FreedMemoryIsUsedAgainInside) {
  allocator->beginAllocateToPool(pool, anything);
  allocate(4096);
  const auto size = allocator->getPoolSize(pool);
  EXPECT_GE(size, 4096 * kKilobyte);
  for (int i = 0; i < 10; i++) {
    allocate(4096);
  }
  allocate(2048); // fits in the place of the larger one
  EXPECT_EQ(allocator->getPoolSize(pool), size);
  auto held = allocate(4096);
  auto another = allocate(4096);
  end();
  EXPECT_GT(allocator->getPoolSize(pool), size);
}

TEST_F(MPSAllocatorPoolTest, MuchLargerBlocksStayInTheCache) {
  allocate(512);
  allocator->beginAllocateToPool(pool, anything);
  auto small = allocate(2);
  EXPECT_EQ(allocator->getPoolSize(pool), 2 * kKilobyte);
  allocate(512);
  EXPECT_EQ(allocator->getPoolSize(pool), (512 + 2) * kKilobyte);
  // What the pool has costs nothing more.
  auto other = allocate(2);
  EXPECT_EQ(allocator->getPoolSize(pool), (512 + 2) * kKilobyte);
  end();
}

TEST_F(MPSAllocatorPoolTest, CachedMemoryIsUsedInside) {
  for (const int64_t size : {256, 4096}) { // small and large heaps
    auto outside = allocate(size);
    const void* block = outside.storage().data();
    outside.reset();
    allocator->beginAllocateToPool(pool, anything);
    auto inside = allocate(size);
    end();
    EXPECT_EQ(inside.storage().data(), block);
    EXPECT_TRUE(isOfPool(inside));
  }
}

TEST_F(MPSAllocatorPoolTest, FreedMemoryIsNotUsedOutside) {
  allocator->beginAllocateToPool(pool, anything);
  auto inside = allocate(4096);
  inside.reset();
  end();
  std::vector<torch::Tensor> others;
  for (int i = 0; i < 8; i++) {
    others.push_back(allocate(4096));
    EXPECT_FALSE(isOfPool(others.back()));
  }
  // the next graph of the pool gets it
  const auto size = allocator->getPoolSize(pool);
  allocator->beginAllocateToPool(pool, anything);
  auto next = allocate(4096);
  end();
  EXPECT_TRUE(isOfPool(next));
  EXPECT_EQ(allocator->getPoolSize(pool), size);
}

TEST_F(MPSAllocatorPoolTest, BlocksThatAreFreedOutsideStayWithThePool) {
  allocator->beginAllocateToPool(pool, anything);
  auto inside = allocate(4096);
  end();
  const auto size = allocator->getPoolSize(pool);
  const auto used = allocator->getCurrentAllocatedMemory();
  inside.reset();
  EXPECT_EQ(allocator->getPoolSize(pool), size);
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), used);
  EXPECT_FALSE(isOfPool(allocate(4096)));
}

TEST_F(MPSAllocatorPoolTest, MemoryIsGivenBackByTheLastGraph) {
  allocator->retainPool(pool);
  allocator->beginAllocateToPool(pool, anything);
  allocate(4096);
  end();
  allocator->releasePool(pool);
  EXPECT_GE(allocator->getPoolSize(pool), 4096 * kKilobyte);
  EXPECT_GE(
      allocator->getCurrentAllocatedMemory(),
      before + allocator->getPoolSize(pool));
  const auto driver = allocator->getDriverAllocatedMemory();
  release();
  EXPECT_EQ(allocator->getPoolSize(pool), 0);
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), before);
  auto outside = allocate(4096);
  EXPECT_FALSE(isOfPool(outside));
  EXPECT_EQ(allocator->getDriverAllocatedMemory(), driver);
}

TEST_F(MPSAllocatorPoolTest, HeldBlocksOutliveThePool) {
  allocator->beginAllocateToPool(pool, anything);
  auto held = allocate(64).fill_(3);
  allocate(4096);
  end();
  release();
  // what is not held does not count
  EXPECT_LT(allocator->getCurrentAllocatedMemory(), before + 4096 * kKilobyte);
  EXPECT_GT(allocator->getCurrentAllocatedMemory(), before);
  EXPECT_FALSE(isOfPool(held));
  // a pool of the same name is another one
  allocator->retainPool(pool);
  retained = true;
  allocator->beginAllocateToPool(pool, anything);
  auto other = allocate(64).fill_(7);
  end();
  expectFilledWith(held, 3);
  expectFilledWith(other, 7);
}

TEST_F(MPSAllocatorPoolTest, HostWrittenScalarsArePinnedElsewhere) {
  float value = 2;
  allocator->beginAllocateToPool(pool, anything);
  auto scalar = allocator->allocScalarBufferWithValue(&value, sizeof(value));
  const std::vector<const void*> expected{scalar.get()};
  scalar.clear();
  const auto pinned = allocator->endAllocateToPool();
  EXPECT_EQ(pinned, expected);
  EXPECT_EQ(allocator->getPoolSize(pool), 0);
  EXPECT_GT(allocator->getCurrentAllocatedMemory(), before);
  allocator->unpin(pinned);
}

TEST_F(MPSAllocatorPoolTest, CapturesAreToldApart) {
  const auto first = allocator->beginAllocateToPool(pool, anything);
  auto of_first = allocate(64);
  // The pool keeps it already.
  EXPECT_FALSE(allocator->pin(of_first.storage().data()));
  end();
  const auto second = allocator->beginAllocateToPool(pool, anything);
  auto of_second = allocate(64);
  EXPECT_NE(first, second);
  EXPECT_EQ(allocator->captureOf(of_first.storage().data()), first);
  EXPECT_EQ(allocator->captureOf(of_second.storage().data()), second);
  EXPECT_TRUE(allocator->pin(of_first.storage().data()));
  end();
  allocator->unpin(of_first.storage().data());
}

TEST_F(MPSAllocatorPoolTest, OtherThreads) {
  constexpr int n_threads = 4;
  std::vector<std::vector<torch::Tensor>> kept(n_threads);
  std::vector<std::thread> threads;
  allocator->beginAllocateToPool(pool, anything);
  for (int i = 0; i < n_threads; i++) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; round++) {
        allocate(1 + 37 * round);
        kept[i].push_back(allocate(16 + round).fill_(100 * i + round));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  end();
  std::set<const void*> buffers;
  for (int i = 0; i < n_threads; i++) {
    for (int round = 0; round < 20; round++) {
      const auto& tensor = kept[i][round];
      EXPECT_TRUE(isOfPool(tensor));
      expectFilledWith(tensor, static_cast<float>(100 * i + round));
      buffers.insert(tensor.storage().data());
    }
  }
  EXPECT_EQ(buffers.size(), n_threads * 20);
}

TEST_F(MPSAllocatorPoolTest, MisuseThrows) {
  const PoolId unknown{0, 54321};
  EXPECT_THROW(
      allocator->beginAllocateToPool(unknown, anything), std::out_of_range);
  EXPECT_THROW(allocator->releasePool(unknown), c10::Error);
  allocator->beginAllocateToPool(pool, anything);
  EXPECT_THROW(allocator->beginAllocateToPool(pool, anything), c10::Error);
  end();
}
