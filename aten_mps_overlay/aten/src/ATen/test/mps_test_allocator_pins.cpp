#include <ATen/mps/MPSAllocatorInterface.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <vector>

class MPSAllocatorPinsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    allocator = at::mps::getIMPSAllocator();
    allocator->emptyCache();
  }

  static torch::Tensor allocate() {
    return torch::empty({kLength}, at::device(at::kMPS));
  }

  static const void* bufferOf(const torch::Tensor& tensor) {
    return tensor.storage().data();
  }

  // Takes more blocks of that size than the allocator has, new ones at the
  // last. They are kept, so that the next call finds what was freed since.
  bool isHandedOut(const void* buffer) {
    const auto first = static_cast<std::ptrdiff_t>(others.size());
    for (int i = 0; i < 8; i++) {
      others.push_back(allocate());
    }
    return std::any_of(
        others.begin() + first, others.end(), [&](const torch::Tensor& tensor) {
          return bufferOf(tensor) == buffer;
        });
  }

  static constexpr int64_t kLength = 400000;
  static constexpr size_t kBytes = kLength * sizeof(float);
  at::mps::IMPSAllocator* allocator = nullptr;
  std::vector<torch::Tensor> others;
};

TEST_F(MPSAllocatorPinsTest, FreedBlockIsHandedOut) {
  auto tensor = allocate();
  const void* buffer = bufferOf(tensor);
  tensor.reset();
  // what the other cases see fail to happen
  EXPECT_TRUE(isHandedOut(buffer));
}

TEST_F(MPSAllocatorPinsTest, PinnedBlockIsNotHandedOut) {
  auto tensor = allocate();
  const void* buffer = bufferOf(tensor);
  EXPECT_TRUE(allocator->pin(buffer));
  tensor.reset();
  EXPECT_FALSE(isHandedOut(buffer));
  allocator->unpin(buffer);
  EXPECT_TRUE(isHandedOut(buffer));
}

TEST_F(MPSAllocatorPinsTest, PinsAreCounted) {
  const auto before = allocator->getCurrentAllocatedMemory();
  auto tensor = allocate();
  const void* buffer = bufferOf(tensor);
  const auto with_tensor = allocator->getCurrentAllocatedMemory();
  EXPECT_GE(with_tensor, before + kBytes);
  EXPECT_TRUE(allocator->pin(buffer));
  tensor.reset();
  // by another owner
  EXPECT_TRUE(allocator->pin(buffer));
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), with_tensor);
  allocator->unpin(buffer);
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), with_tensor);
  EXPECT_FALSE(isHandedOut(buffer));
  others.clear();
  allocator->unpin(buffer);
  EXPECT_EQ(allocator->getCurrentAllocatedMemory(), before);
}

TEST_F(MPSAllocatorPinsTest, UnpinnedBlockInUseStays) {
  auto tensor = allocate().fill_(3);
  const void* buffer = bufferOf(tensor);
  EXPECT_TRUE(allocator->pin(buffer));
  allocator->unpin(buffer);
  EXPECT_FALSE(isHandedOut(buffer));
  for (auto& other : others) {
    other.fill_(7);
  }
  EXPECT_TRUE(torch::equal(tensor.cpu(), torch::full({kLength}, 3.f)));
}

TEST_F(MPSAllocatorPinsTest, ContentOfPinnedBlockStays) {
  auto tensor = allocate().fill_(3);
  const void* buffer = bufferOf(tensor);
  EXPECT_TRUE(allocator->pin(buffer));
  tensor.reset();
  allocator->emptyCache();
  for (int i = 0; i < 8; i++) {
    others.push_back(allocate().fill_(7));
  }
  // as a graph does that writes to the memory of a tensor that is gone
  auto again = torch::empty({0}, at::device(at::kMPS));
  again.set_(
      c10::Storage(
          c10::Storage::use_byte_size_t(),
          kBytes,
          c10::DataPtr(const_cast<void*>(buffer), again.device())),
      0,
      {kLength});
  EXPECT_TRUE(torch::equal(again.cpu(), torch::full({kLength}, 3.f)));
  again.reset();
  allocator->unpin(buffer);
}

TEST_F(MPSAllocatorPinsTest, NothingToPin) {
  const int on_the_host = 0;
  EXPECT_FALSE(allocator->pin(nullptr));
  EXPECT_FALSE(allocator->pin(&on_the_host));
  auto tensor = allocate();
  const void* buffer = bufferOf(tensor);
  tensor.reset();
  EXPECT_FALSE(allocator->pin(buffer));
}

TEST_F(MPSAllocatorPinsTest, UnpinWithoutPinThrows) {
  const int on_the_host = 0;
  EXPECT_THROW(allocator->unpin(&on_the_host), c10::Error);
  auto tensor = allocate();
  const void* buffer = bufferOf(tensor);
  EXPECT_THROW(allocator->unpin(buffer), c10::Error);
  EXPECT_TRUE(allocator->pin(buffer));
  allocator->unpin(buffer);
  EXPECT_THROW(allocator->unpin(buffer), c10::Error);
}
