#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraphMemory.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

using namespace at::mps;

TEST(MPSGraphMemoryTest, OverwritesInAPool) {
  const IMPSAllocator::CapturePoolId pool = {7, 1};
  const MPSOverwrites first(pool);
  const MPSOverwrites other({7, 2});
  {
    const MPSOverwrites dropped(pool);
    first.countReplay();
    EXPECT_EQ(dropped.count(), 1);
  }
  const MPSOverwrites last(pool);
  last.countReplay();
  first.countReplay();
  EXPECT_EQ(first.count(), 2);
  EXPECT_EQ(last.count(), 2);
  EXPECT_EQ(other.count(), 0);
}

TEST(MPSGraphMemoryTest, PinnedBlocksAreNotHandedOut) {
  ASSERT_TRUE(torch::mps::is_available());
  const auto onDevice = [] { return torch::zeros({4096}, at::kMPS); };
  auto x = onDevice();
  const void* block = x.storage().data();
  {
    MPSPinnedBuffers pinned;
    pinned.pin(block);
    pinned.pin(block); // It has one pin.
    EXPECT_TRUE(pinned.contains(block));
    x.reset();
    EXPECT_NE(onDevice().storage().data(), block);
  }
  EXPECT_EQ(onDevice().storage().data(), block);
}
