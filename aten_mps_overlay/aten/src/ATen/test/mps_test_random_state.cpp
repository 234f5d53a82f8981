#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

using at::mps::MPSCommandGraph;
using Draw = std::function<at::Tensor(at::Generator)>;

static const auto kOnDevice = at::device(at::kMPS);

static at::Tensor stateOf(const at::Generator& generator) {
  return generator.get_state().clone();
}

// Replays of two draws, with a draw of eager between them, give what as many
// draws of eager give from the same state, and leave the generator there.
static void checkDraws(
    MPSCommandGraph& graph,
    at::Generator generator,
    const Draw& draw) {
  std::vector<at::Tensor> results;
  graph.captureBegin();
  results.push_back(draw(generator));
  results.push_back(draw(generator));
  graph.captureEnd();
  at::Tensor last;
  for (const uint64_t seed : {7, 8}) {
    generator.set_current_seed(seed);
    std::vector<at::Tensor> seen;
    graph.replay();
    seen.push_back(results[0].cpu());
    seen.push_back(results[1].cpu());
    seen.push_back(draw(generator).cpu());
    graph.replay();
    seen.push_back(results[0].cpu());
    seen.push_back(results[1].cpu());
    const auto state = stateOf(generator);

    generator.set_current_seed(seed);
    for (const auto& one : seen) {
      EXPECT_TRUE(torch::equal(one, draw(generator).cpu()));
    }
    EXPECT_TRUE(torch::equal(stateOf(generator), state));
    // no draw repeats another one
    EXPECT_FALSE(torch::equal(seen[0], seen[1]));
    EXPECT_FALSE(torch::equal(seen[0], seen[3]));
    EXPECT_FALSE(last.defined() && torch::equal(seen[0], last));
    last = seen[0];
  }
}

static void checkDefaultGenerator(const Draw& draw) {
  MPSCommandGraph graph;
  checkDraws(graph, at::mps::detail::getDefaultMPSGenerator(), draw);
}

TEST(MPSRandomStateTest, Normal) {
  checkDefaultGenerator([](const at::Generator& generator) {
    return torch::randn({100}, generator, kOnDevice);
  });
}

TEST(MPSRandomStateTest, Uniform) {
  checkDefaultGenerator([](const at::Generator& generator) {
    return torch::rand({100}, generator, kOnDevice);
  });
}

TEST(MPSRandomStateTest, Integers) {
  checkDefaultGenerator([](const at::Generator& generator) {
    return torch::randint(0, 1 << 20, {100}, generator, kOnDevice);
  });
}

TEST(MPSRandomStateTest, Bernoulli) {
  const auto p = torch::full({100}, 0.5f, kOnDevice);
  checkDefaultGenerator(
      [&](const at::Generator& generator) { return p.bernoulli(generator); });
}

TEST(MPSRandomStateTest, Multinomial) {
  const auto weights = torch::ones({50}, kOnDevice);
  checkDefaultGenerator([&](const at::Generator& generator) {
    return weights.multinomial(100, /*replacement=*/true, generator);
  });
}

TEST(MPSRandomStateTest, Dropout) {
  const auto x = torch::ones({100}, kOnDevice);
  checkDefaultGenerator([&](const at::Generator&) {
    return torch::dropout(x, 0.5, /*train=*/true);
  });
}

TEST(MPSRandomStateTest, RegisteredGenerator) {
  const auto default_state = stateOf(at::mps::detail::getDefaultMPSGenerator());
  auto generator = at::mps::detail::createMPSGenerator(3);
  MPSCommandGraph graph;
  graph.registerGeneratorState(generator);
  checkDraws(graph, generator, [](const at::Generator& used) {
    return torch::rand({100}, used, kOnDevice);
  });
  EXPECT_TRUE(torch::equal(
      stateOf(at::mps::detail::getDefaultMPSGenerator()), default_state));
}

TEST(MPSRandomStateTest, DrawsUseNewInputs) {
  auto p = torch::zeros({100}, kOnDevice);
  MPSCommandGraph graph;
  graph.captureBegin();
  auto y = p.bernoulli();
  graph.captureEnd();
  EXPECT_EQ(y.sum().item<float>(), 0);
  p.fill_(1);
  graph.replay();
  EXPECT_EQ(y.sum().item<float>(), 100);
}

static void expectRefused(
    MPSCommandGraph& graph,
    const std::function<void()>& action,
    const std::string& words) {
  graph.captureBegin();
  try {
    action();
    ADD_FAILURE() << "not refused";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  graph.captureAbort();
}

TEST(MPSRandomStateTest, UnregisteredGeneratorThrows) {
  auto generator = at::mps::detail::createMPSGenerator(3);
  const auto state = stateOf(generator);
  MPSCommandGraph graph;
  expectRefused(
      graph,
      [&] { torch::rand({100}, generator, kOnDevice); },
      "from a generator that the graph does not know");
  EXPECT_TRUE(torch::equal(stateOf(generator), state));
}

TEST(MPSRandomStateTest, SeedingInACaptureThrows) {
  auto generator = at::mps::detail::createMPSGenerator(3);
  MPSCommandGraph graph;
  expectRefused(
      graph, [] { torch::mps::manual_seed(1); }, "seeded");
  graph.registerGeneratorState(generator);
  expectRefused(
      graph, [&] { generator.set_current_seed(1); }, "seeded");
  EXPECT_EQ(generator.current_seed(), 3);
  // one that takes no part may be seeded
  auto other = at::mps::detail::createMPSGenerator(4);
  graph.captureBegin();
  other.set_current_seed(5);
  graph.captureEnd();
  EXPECT_EQ(other.current_seed(), 5);
}
