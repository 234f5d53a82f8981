// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphRandom.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;
using at::native::mps::DynamicMetalShaderLibrary;

static const auto kOnDevice = at::device(at::kMPS);
static constexpr int64_t kLength = 64;

namespace {

/// What the kernel is given.
enum class Takes { SEED_AND_OFFSET, MORE };

} // namespace

/// Kernels that compute their random numbers by themselves, from the seed of the generator and an offset.
class MPSDrawnBytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    generator = at::mps::detail::getDefaultMPSGenerator();
  }

  // Fills the tensors, all from one draw, as the Metal kernels of upstream do: seed and offset are taken on the calling
  // thread.
  void fill(const std::vector<at::Tensor>& results, Takes takes = Takes::SEED_AND_OFFSET) {
    auto* stream = getCurrentMPSStream();
    auto* from = generator.get<at::MPSGeneratorImpl>();
    std::array<int64_t, 2> state;
    {
      std::lock_guard<std::mutex> lock(from->mutex_);
      state = {static_cast<int64_t>(from->current_seed()), static_cast<int64_t>(from->get_offset())};
      from->set_offset(state[1] + kLength / 4);
    }
    dispatch_sync_with_rethrow(stream->queue(), ^() {
      @autoreleasepool {
        id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
        [encoder setComputePipelineState:library.getPipelineStateForFunc("draw")];
        if (takes == Takes::SEED_AND_OFFSET) {
          [encoder setBytes:state.data() length:sizeof(state) atIndex:1];
        } else {
          const int64_t other[3] = {state[0], state[1], 0};
          [encoder setBytes:other length:sizeof(other) atIndex:1];
        }
        for (const auto& result : results) {
          at::native::mps::mtl_setBuffer(encoder, result, 0);
          [encoder dispatchThreads:MTLSizeMake(kLength, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
        }
      }
    });
  }

  at::Tensor drawOnce() {
    auto result = at::empty({kLength}, kOnDevice.dtype(at::kLong));
    fill({result});
    return result;
  }

  // Replays of `work`, which fills the tensors that it returns, give what as many runs of eager give from the same
  // state, and leave the generator there.
  void checkReplays(const std::function<std::vector<at::Tensor>()>& work) {
    MPSCommandGraph graph;
    graph.captureBegin();
    const auto results = work();
    graph.captureEnd();
    at::Tensor last;
    for (const uint64_t seed : {7, 8}) {
      generator.set_current_seed(seed);
      std::vector<at::Tensor> seen;
      for (int i = 0; i < 2; i++) {
        for (const auto& result : results) {
          result.fill_(-1);
        }
        graph.replay();
        for (const auto& result : results) {
          seen.push_back(result.cpu());
        }
        // eager work of others in between
        seen.push_back(drawOnce().cpu());
      }
      const auto state = generator.get_state().clone();
      generator.set_current_seed(seed);
      std::vector<at::Tensor> expected;
      for (int i = 0; i < 2; i++) {
        for (const auto& result : work()) {
          expected.push_back(result.cpu());
        }
        expected.push_back(drawOnce().cpu());
      }
      ASSERT_EQ(seen.size(), expected.size());
      for (size_t i = 0; i < seen.size(); i++) {
        EXPECT_TRUE(torch::equal(seen[i], expected[i])) << i;
      }
      EXPECT_TRUE(torch::equal(generator.get_state(), state));
      EXPECT_FALSE(torch::equal(seen[0], seen[results.size() + 1]));
      EXPECT_FALSE(last.defined() && torch::equal(seen[0], last));
      last = seen[0];
    }
  }

  DynamicMetalShaderLibrary library{R"MTL(
  #include <metal_stdlib>
  kernel void draw(device long* numbers, constant long* state, uint index [[thread_position_in_grid]]) {
    ulong x = ulong(state[0]) * 0x9E3779B97F4A7C15 + ulong(state[1]) * 4 + index;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    numbers[index] = long((x ^ (x >> 31)) >> 1);
  }
  )MTL"};
  at::Generator generator;
};

TEST_F(MPSDrawnBytesTest, ReplaysDrawAsEager) {
  checkReplays([&] { return std::vector<at::Tensor>{drawOnce(), drawOnce()}; });
}

TEST_F(MPSDrawnBytesTest, WithOtherDrawsAndOtherWork) {
  checkReplays([&] {
    auto first = drawOnce();
    auto uniform = torch::rand({kLength}, generator, kOnDevice);
    auto second = drawOnce();
    return std::vector<at::Tensor>{first, uniform, second, first + second};
  });
}

TEST_F(MPSDrawnBytesTest, SeveralDispatchesReadOneDraw) {
  checkReplays([&] {
    std::vector<at::Tensor> results;
    for (int i = 0; i < 2; i++) {
      results.push_back(at::empty({kLength}, kOnDevice.dtype(at::kLong)));
    }
    fill(results);
    return results;
  });
}

TEST_F(MPSDrawnBytesTest, ReplayedTwiceInAnotherCapture) {
  MPSCommandGraph inner;
  inner.captureBegin();
  auto result = drawOnce();
  inner.captureEnd();
  MPSCommandGraph outer;
  outer.captureBegin();
  inner.replay();
  auto first = result.clone();
  inner.replay();
  auto second = result.clone();
  outer.captureEnd();
  for (const uint64_t seed : {7, 8}) {
    generator.set_current_seed(seed);
    outer.replay();
    const auto state = generator.get_state().clone();
    generator.set_current_seed(seed);
    EXPECT_TRUE(torch::equal(first, drawOnce()));
    EXPECT_TRUE(torch::equal(second, drawOnce()));
    EXPECT_TRUE(torch::equal(generator.get_state(), state));
    EXPECT_FALSE(torch::equal(first, second));
  }
}

TEST_F(MPSDrawnBytesTest, BesideIndirectCommands) {
  setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1", 1);
  checkReplays([&] {
    std::vector<at::Tensor> results;
    for (int i = 0; i < 5; i++) {
      results.push_back(drawOnce());
    }
    return results;
  });
  unsetenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS");
}

static void expectRaised(const std::function<void()>& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "nothing was raised";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(MPSDrawnBytesTest, DrawThatNoKernelTakesRaises) {
  auto result = at::empty({kLength}, kOnDevice.dtype(at::kLong));
  MPSCommandGraph graph;
  graph.captureBegin();
  fill({result}, Takes::MORE);
  expectRaised([&] { graph.captureEnd(); }, "no kernel received the seed and the offset");
}

TEST_F(MPSDrawnBytesTest, EarlierOffsetRaises) {
  generator.set_current_seed(3);
  drawOnce();
  MPSCommandGraph graph;
  graph.captureBegin();
  expectRaised([&] { generator.set_offset(0); }, "an earlier offset");
  graph.captureAbort();
}

TEST_F(MPSDrawnBytesTest, GeneratorOfTheBlockRaises) {
  MPSCommandGraph graph;
  graph.captureBegin();
  generator = at::mps::detail::createMPSGenerator(5);
  expectRaised([&] { drawOnce(); }, "a generator that the block made");
  graph.captureAbort();
}

TEST_F(MPSDrawnBytesTest, GeneratorOfTheBlockMayBeGivenAState) {
  const auto other = at::mps::detail::createMPSGenerator(5);
  const auto state = other.get_state();
  MPSCommandGraph graph;
  graph.captureBegin();
  auto result = drawOnce();
  auto changed = at::mps::detail::createMPSGenerator(6);
  changed.set_state(state);
  graph.captureEnd();
  EXPECT_EQ(changed.current_seed(), 5);
}

TEST_F(MPSDrawnBytesTest, GeneratorOfTheProgram) {
  generator = at::mps::detail::createMPSGenerator(5);
  MPSCommandGraph graph;
  graph.captureBegin();
  auto result = drawOnce();
  graph.captureEnd();
  generator.set_current_seed(9);
  graph.replay();
  generator.set_current_seed(9);
  EXPECT_TRUE(torch::equal(result, drawOnce()));
}
