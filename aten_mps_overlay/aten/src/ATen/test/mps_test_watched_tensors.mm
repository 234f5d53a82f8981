#include <ATen/mps/MPSCommandGraphInputs.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

using namespace at::mps;
using Kind = MPSCommandGraphInputs::Kind;

static at::Tensor onDevice(int64_t length = 4096) {
  return torch::zeros({length}, at::kMPS);
}

class MPSWatchedTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
  }

  // Nothing pins the memory here, so the allocator does not count when it is freed.
  void watch(const std::vector<at::Tensor>& tensors, Kind kind = Kind::INPUT, bool check_liveness = false) {
    for (const auto& tensor : tensors) {
      inputs->add(tensor, kind);
    }
    EXPECT_TRUE(inputs->takeChanged().empty());
    inputs->finish(check_liveness);
  }

  // "" if a check does not raise.
  std::string problem() {
    try {
      inputs->check();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  }

  void expectProblem(const std::string& words) {
    for (int i = 0; i < 2; i++) {
      EXPECT_NE(problem().find(words), std::string::npos) << problem();
    }
  }

  std::optional<MPSCommandGraphInputs> inputs{std::in_place};
};

TEST_F(MPSWatchedTensorsTest, MovedTensor) {
  auto x = onDevice();
  watch({x});
  x.fill_(3);
  EXPECT_EQ(problem(), "");
  x.resize_({1 << 20});
  expectProblem("now has shape [1048576]");
}

TEST_F(MPSWatchedTensorsTest, ReplacedStorage) {
  for (const auto kind : {Kind::INPUT, Kind::VIEW, Kind::RESULT}) {
    auto x = onDevice();
    inputs.emplace();
    watch({x}, kind);
    x.set_data(onDevice());
    expectProblem("another storage");
  }
}

TEST_F(MPSWatchedTensorsTest, OnlyMetadataOfInputs) {
  for (const auto kind : {Kind::INPUT, Kind::VIEW, Kind::RESULT}) {
    auto x = onDevice();
    inputs.emplace();
    watch({x}, kind);
    x.unsqueeze_(0);
    if (kind == Kind::INPUT) {
      expectProblem("now has shape [1, 4096]");
    } else {
      EXPECT_EQ(problem(), "");
    }
  }
}

TEST_F(MPSWatchedTensorsTest, RequiresGrad) {
  for (const bool has_gradients : {false, true}) {
    auto x = onDevice();
    inputs.emplace();
    inputs->add(x, Kind::INPUT).has_gradients = has_gradients;
    inputs->finish(false);
    EXPECT_EQ(problem(), "");
    x.requires_grad_();
    if (has_gradients) {
      expectProblem("now has requires_grad=True");
    } else {
      EXPECT_EQ(problem(), "");
    }
  }
}

TEST_F(MPSWatchedTensorsTest, GoneTensor) {
  for (const bool check_liveness : {false, true}) {
    auto x = onDevice();
    inputs.emplace();
    watch({x}, Kind::INPUT, check_liveness);
    EXPECT_EQ(problem(), "");
    x.reset();
    if (check_liveness) {
      expectProblem("is gone");
    } else {
      EXPECT_EQ(problem(), "");
    }
  }
}

// A dead tensor leaves its storage to be watched. The storage of a view may go. Behind another alias, such as `x.data`,
// nobody sees whether `x` went or has other memory.
TEST_F(MPSWatchedTensorsTest, StorageThatATensorLeavesToOthers) {
  for (const bool is_view : {false, true}) {
    for (const bool moves : {false, true}) {
      auto x = onDevice();
      const auto alias = [&] { return is_view ? x.view({-1}) : x.detach(); };
      inputs.emplace();
      watch({alias(), alias(), alias()});
      EXPECT_EQ(problem(), "");
      if (moves) {
        x.resize_({1 << 20});
      } else {
        x.reset();
      }
      if (moves || !is_view) {
        expectProblem("has other memory now, or no longer exists");
      } else {
        EXPECT_EQ(problem(), "");
      }
    }
  }
}

TEST_F(MPSWatchedTensorsTest, AllAreChecked) {
  auto x = onDevice();
  auto y = onDevice();
  watch({x, y});
  EXPECT_EQ(problem(), "");
  y.resize_({1 << 20});
  expectProblem("now has shape [1048576]");
}

TEST_F(MPSWatchedTensorsTest, ChangedInTheBlock) {
  auto x = onDevice();
  auto y = onDevice();
  inputs->add(x, Kind::INPUT);
  inputs->add(y, Kind::INPUT);
  x.t_().resize_({8});
  const auto changed = inputs->takeChanged();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].was.impl(), x.unsafeGetTensorImpl());
  EXPECT_EQ(inputs->tensors().size(), 1u);
}

TEST_F(MPSWatchedTensorsTest, Versions) {
  auto written = onDevice();
  auto read = onDevice();
  auto made = onDevice();
  const auto view = written.view({-1});
  inputs->add(view, Kind::VIEW);
  inputs->add(read, Kind::INPUT);
  inputs->add(made, Kind::RESULT);
  written.fill_(1);
  inputs->takeChanged();
  inputs->finish(false);
  const std::vector<at::Tensor> all{written, read, made};
  std::vector<int64_t> before;
  for (const auto& tensor : all) {
    before.push_back(tensor._version());
  }
  inputs->countReplay();
  EXPECT_GT(written._version(), before[0]);
  EXPECT_EQ(read._version(), before[1]);
  EXPECT_GT(made._version(), before[2]);
}
