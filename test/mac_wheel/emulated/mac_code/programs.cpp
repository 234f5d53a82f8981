// Small programs on the device, built for the Mac and for the simulator. Each leaves the bytes of its tensors.

#include <ATen/ATen.h>
#include <ATen/mps/MPSCommandGraph.h>

#include <string>

#define SHARED extern "C" __attribute__((visibility("default")))

namespace {

std::string content, text;

void result(const at::Tensor& tensor) {
  const auto copied = tensor.cpu().contiguous();
  content.append(static_cast<const char*>(copied.data_ptr()), copied.nbytes());
}

// The same numbers everywhere; made without operators, which need more of a CPU than there is.
at::Tensor input(at::IntArrayRef sizes, int first = 3) {
  auto made = at::empty(sizes, at::kFloat);
  for (int64_t i = 0; i < made.numel(); i++) {
    made.data_ptr<float>()[i] = static_cast<float>((i * 7 + first) % 11) / 4 - 1;
  }
  return made.to(at::kMPS);
}

void seed() {
  auto generator = at::globalContext().defaultGenerator(at::kMPS);
  generator.set_current_seed(7);
}

// A graph of MPSGraph runs, a kernel and random numbers, replayed on new inputs. Another thread may encode the next ones.
void replays(size_t encode_ahead) {
  seed();
  const auto given = input({4, 5}), weight = input({5, 3}), other = input({3});
  const auto step = [&] { return at::softmax(at::fmax(at::mm(given, weight), other), -1) + at::rand({3}, at::kMPS); };
  step();
  at::mps::MPSCommandGraph graph(/*keep_graph=*/false, encode_ahead);
  graph.captureBegin();
  const auto taken = step();
  graph.captureEnd();
  for (int number = 1; number <= 3; number++) {
    given.copy_(input({4, 5}, number));
    graph.replay();
    result(taken);
  }
}

void operators() {
  const auto given = input({4, 5}), other = input({4, 5}, 5), image = input({1, 2, 6, 6});
  const auto indices = at::tensor({2, 0, 3}).to(at::kMPS);
  for (const auto& each :
       {given.index_select(0, indices), given.index({indices}), std::get<0>(given.sort(-1)), given.cumsum(0),
        at::cat({given, other}), at::where(given > other, given, other), given.sum(0), given.t().contiguous(),
        at::layer_norm(given, {5}), at::bitwise_xor(indices, indices + 5), at::gelu(given).to(at::kHalf),
        given.masked_fill(given < 0, 2), at::max_pool2d(image, {2, 2}),
        at::upsample_bilinear2d(image, {9, 9}, /*align_corners=*/false), at::embedding(given, indices)}) {
    result(each);
  }
}

struct {
  std::string name;
  void (*run)();
} const programs[] = {
    {"copies", [] { result(input({5, 3})); }},
    {"ones", [] { result(at::ones({3}, at::kMPS) + 1); }},
    {"kernel", [] { result(at::fmax(input({4, 5}), input({5}))); }},
    {"matmul", [] { result(at::mm(input({3, 4}), input({4, 5}))); }},
    {"convolution", [] { result(at::conv2d(input({1, 2, 6, 6}), input({3, 2, 3, 3}), input({3}))); }},
    {"softmax", [] { result(at::softmax(input({4, 7}), -1)); }},
    {"random", [] { seed(), result(at::rand({5}, at::kMPS)), result(at::randn({4}, at::kMPS)); }},
    {"replays", [] { replays(0); }},
    {"ahead", [] { replays(2); }},
    {"operators", operators},
};

} // namespace

/// Runs a program; returns its error, or null.
SHARED const char* mac_code_run(const char* name) {
  content.clear();
  text = "there is no such program";
  for (const auto& each : programs) {
    if (each.name == name) {
      try {
        each.run();
        return nullptr;
      } catch (const std::exception& error) {
        text = error.what();
      }
    }
  }
  return text.c_str();
}

SHARED const char* mac_code_content() { return content.data(); }
SHARED size_t mac_code_content_size() { return content.size(); }
