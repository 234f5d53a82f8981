// Small programs on the device, built for the Mac and for the simulator. Each returns the bytes of its tensors.

#include <ATen/ATen.h>
#include <ATen/mps/MPSCommandGraph.h>

#include <cstring>
#include <string>

#define SHARED extern "C" __attribute__((visibility("default")))

namespace {

std::string content, text;

void result(const at::Tensor& tensor) {
  const auto copied = tensor.cpu().contiguous();
  content.append(static_cast<const char*>(copied.data_ptr()), copied.nbytes());
}

// The same numbers everywhere.
at::Tensor input(at::IntArrayRef sizes, int first = 3) {
  auto made = at::empty(sizes, at::kFloat);
  auto* numbers = made.data_ptr<float>();
  for (int64_t i = 0; i < made.numel(); i++) {
    numbers[i] = static_cast<float>((i * 7 + first) % 11) / 4 - 1;
  }
  return made;
}

void copies() {
  result(input({5, 3}).to(at::kMPS));
}

void ones() {
  result(at::ones({3}, at::kMPS) + 1);
}

// One of Metal's kernels.
void kernel() {
  result(at::fmax(input({4, 5}).to(at::kMPS), input({5}).to(at::kMPS)));
}

void matmul() {
  result(at::mm(input({3, 4}).to(at::kMPS), input({4, 5}).to(at::kMPS)));
}

void convolution() {
  result(at::conv2d(input({1, 2, 6, 6}).to(at::kMPS), input({3, 2, 3, 3}).to(at::kMPS), input({3}).to(at::kMPS)));
}

void softmax() {
  result(at::softmax(input({4, 7}).to(at::kMPS), -1));
}

void seed() {
  auto generator = at::globalContext().defaultGenerator(at::kMPS);
  generator.set_current_seed(7);
}

void random() {
  seed();
  result(at::rand({5}, at::kMPS));
  result(at::randn({4}, at::kMPS));
}

// A graph of an MPSGraph run, a kernel and random numbers, replayed on new inputs.
void replays() {
  seed();
  const auto given = input({4, 5}).to(at::kMPS), weight = input({5, 3}).to(at::kMPS), other = input({3}).to(at::kMPS);
  const auto step = [&] { return at::softmax(at::fmax(at::mm(given, weight), other), -1) + at::rand({3}, at::kMPS); };
  step();
  at::mps::MPSCommandGraph graph;
  graph.captureBegin();
  const auto taken = step();
  graph.captureEnd();
  for (int number = 1; number <= 3; number++) {
    given.copy_(input({4, 5}, number));
    graph.replay();
    result(taken);
  }
}

// The same with replays that another thread encodes.
void ahead() {
  const auto given = input({4, 5}).to(at::kMPS), weight = input({5, 3}).to(at::kMPS);
  const auto step = [&] { return at::softmax(at::mm(given, weight), -1); };
  step();
  at::mps::MPSCommandGraph graph(/*keep_graph=*/false, /*encode_ahead=*/2);
  graph.captureBegin();
  const auto taken = step();
  graph.captureEnd();
  for (int number = 1; number <= 3; number++) {
    given.copy_(input({4, 5}, number));
    graph.replay();
    result(taken);
  }
}

// Indices, sorts, sums and other operators.
void operators() {
  const auto given = input({4, 5}).to(at::kMPS), other = input({4, 5}, 5).to(at::kMPS);
  const auto indices = at::tensor({2, 0, 3}).to(at::kMPS);
  result(given.index_select(0, indices));
  result(given.index({indices}));
  result(std::get<0>(given.sort(-1)));
  result(given.cumsum(0));
  result(at::cat({given, other}));
  result(at::where(given > other, given, other));
  result(given.sum(0));
  result(given.t().contiguous());
  result(at::layer_norm(given, {5}));
  result(at::bitwise_xor(indices, indices + 5));
  result(at::gelu(given).to(at::kHalf));
  result(given.masked_fill(given < 0, 2));
  result(at::max_pool2d(input({1, 2, 6, 6}).to(at::kMPS), {2, 2}));
  result(at::upsample_bilinear2d(input({1, 2, 6, 6}).to(at::kMPS), {9, 9}, false));
  result(at::embedding(given, indices));
}

struct {
  const char* name;
  void (*run)();
} const programs[] = {
    {"copies", copies},
    {"ones", ones},
    {"kernel", kernel},
    {"matmul", matmul},
    {"convolution", convolution},
    {"softmax", softmax},
    {"random", random},
    {"replays", replays},
    {"ahead", ahead},
    {"operators", operators},
};

} // namespace

/// Runs a program; returns its error, or null.
SHARED const char* mac_code_run(const char* name) {
  content.clear();
  for (const auto& each : programs) {
    if (std::strcmp(name, each.name) == 0) {
      try {
        each.run();
        return nullptr;
      } catch (const std::exception& error) {
        text = error.what();
        return text.c_str();
      }
    }
  }
  return "there is no such program";
}

SHARED const char* mac_code_content() {
  return content.data();
}

SHARED size_t mac_code_content_size() {
  return content.size();
}

namespace {

struct Size {
  long width, height, depth;
};

} // namespace

/// Sends a message with two structs, as every compiler for arm64 passes them: by their addresses.
SHARED void mac_code_send_sizes(void* receiver, void* selector, void (*send)(void*, void*, Size, Size)) {
  send(receiver, selector, {3, 1, 1}, {1, 1, 1});
}

/// Sends it with their fields in the registers.
SHARED void mac_code_send_fields(
    void* receiver, void* selector, void (*send)(void*, void*, long, long, long, long, long, long)) {
  send(receiver, selector, 3, 1, 1, 1, 1, 1);
}
