#include <ATen/mps/MPSWatchedTensors.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

using namespace at::mps;

static at::Tensor onDevice(int64_t length = 4096) {
  return torch::zeros({length}, at::kMPS);
}

class MPSWatchedTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
  }

  void watch(const std::vector<at::Tensor>& inputs) {
    std::vector<MPSWatchedTensor> all;
    for (const auto& tensor : inputs) {
      all.emplace_back(tensor, MPSWatchedTensor::Kind::INPUT);
    }
    tensors.set(std::move(all));
  }

  MPSWatchedTensors tensors;
};

TEST_F(MPSWatchedTensorsTest, MovedTensor) {
  auto x = onDevice();
  const MPSWatchedTensor watched(x, MPSWatchedTensor::Kind::INPUT);
  x.fill_(3);
  EXPECT_FALSE(watched.moved());
  x.resize_({1 << 20});
  EXPECT_TRUE(watched.moved());
  EXPECT_NE(watched.describe().find("now has shape [1048576]"), std::string::npos) << watched.describe();
}

TEST_F(MPSWatchedTensorsTest, ReplacedStorage) {
  auto x = onDevice();
  const MPSWatchedTensor watched(x, MPSWatchedTensor::Kind::INPUT);
  x.set_data(onDevice());
  EXPECT_TRUE(watched.moved());
}

TEST_F(MPSWatchedTensorsTest, GoneTensor) {
  auto x = onDevice();
  const MPSWatchedTensor watched(x, MPSWatchedTensor::Kind::LIVE_INPUT);
  const MPSWatchedTensor unchecked(x, MPSWatchedTensor::Kind::INPUT);
  EXPECT_FALSE(watched.gone());
  x.reset();
  EXPECT_TRUE(watched.gone());
  EXPECT_FALSE(unchecked.gone());
  EXPECT_FALSE(unchecked.moved());
  EXPECT_TRUE(unchecked.forgotten());
}

TEST_F(MPSWatchedTensorsTest, StorageOfAGoneTensor) {
  auto x = onDevice();
  auto shared = onDevice();
  auto alias = shared.view({-1});
  for (const bool is_gone : {false, true}) {
    auto kept = onDevice();
    watch({x.detach(), kept.detach(), shared, alias, onDevice(), x.detach()});
    tensors.check();
    if (is_gone) {
      kept.reset();
    } else {
      x.resize_({1 << 20});
    }
    EXPECT_THROW(tensors.check(), c10::Error);
  }
}

TEST_F(MPSWatchedTensorsTest, StorageThatATensorLeavesToOthers) {
  for (const bool is_checked_before : {false, true}) {
    auto x = onDevice();
    auto alias = x.detach();
    watch({alias});
    alias.reset();
    if (is_checked_before) {
      tensors.check();
    }
    x.resize_({1 << 20});
    EXPECT_THROW(tensors.check(), c10::Error);
  }
}

TEST_F(MPSWatchedTensorsTest, AllAreChecked) {
  auto x = onDevice();
  auto y = onDevice();
  watch({x, y});
  tensors.check();
  y.resize_({1 << 20});
  EXPECT_THROW(tensors.check(), c10::Error);
}

TEST_F(MPSWatchedTensorsTest, Marks) {
  auto x = onDevice();
  const auto* tensor = x.unsafeGetTensorImpl();
  EXPECT_FALSE(MPSWatchMark::isOn(tensor));
  {
    const MPSWatchMark first(tensor);
    { const MPSWatchMark second(tensor); }
    EXPECT_TRUE(MPSWatchMark::isOn(tensor));
  }
  EXPECT_FALSE(MPSWatchMark::isOn(tensor));
}
