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

at::Tensor numbers(at::IntArrayRef values) {
  return at::tensor(values).to(at::kMPS);
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
  graph.captureBegin(std::nullopt, /*freeze_host_reads=*/false, /*check_input_liveness=*/false);
  const auto taken = step();
  graph.captureEnd();
  for (int number = 1; number <= 3; number++) {
    given.copy_(input({4, 5}, number));
    graph.replay();
    result(taken);
  }
}

void operators() {
  const auto given = input({4, 5}), other = input({4, 5}, 5), square = input({5, 5}), image = input({1, 2, 6, 6});
  const auto batches = input({2, 3, 4}), weight = input({3, 2, 3, 3}), row = input({5}), features = input({2}, 6);
  const auto indices = numbers({2, 0, 3}), places = numbers({1, 3, 0, 2}).view({2, 2});
  for (const auto& each :
       {given.index_select(0, indices), given.index({indices}), std::get<0>(given.sort(-1)), given.cumsum(0),
        at::cat({given, other}), at::where(given > other, given, other), given.sum(0), given.t().contiguous(),
        at::layer_norm(given, {5}), at::bitwise_xor(indices, indices + 5), at::gelu(given).to(at::kHalf),
        given.masked_fill(given < 0, 2), at::max_pool2d(image, {2, 2}),
        at::upsample_bilinear2d(image, {9, 9}, /*align_corners=*/false), at::embedding(given, indices),
        at::linear(given, square, row), at::bmm(batches, batches.transpose(1, 2)), at::addmm(row, given, square),
        given.mean(), given.var(1), given.amax(1), given.argmax(1), given.norm(), given.clamp(-1, 1), given.pow(2),
        given.sigmoid(), given.tanh(), given.exp(), given.abs().sqrt(), given / (other.abs() + 1), at::silu(given),
        at::leaky_relu(given), at::threshold_backward(given, other, 0), at::_softmax(given, 1, false),
        at::_log_softmax(given, 1, false), at::batch_norm(image, features, features, features, features.abs(), false,
        0.1, 1e-5, false), at::avg_pool2d(image, {3, 3}), at::conv_transpose2d(input({1, 3, 4, 4}), weight),
        at::gather(given, 0, places), given.scatter(0, places, 9), std::get<0>(given.topk(2)), given.triu(), given.flip(0),
        given.roll(1, 0), at::stack({given, other}), given.unsqueeze(0).expand({2, 4, 5}).contiguous(), at::isnan(given),
        given.eq(other), given.logical_and(other), given.nonzero(), at::one_hot(indices, 4), at::mse_loss(given, other),
        at::nll_loss(given, numbers({1, 0, 4, 2})), at::arange(5, at::device(at::kMPS)),
        at::constant_pad_nd(given, {1, 1}), at::repeat_interleave(given, 2, 0), at::bucketize(given, row),
        std::get<0>(at::native_group_norm(image, features, features, 1, 2, 36, 1, 1e-5)), at::dropout(given, 0.5, false),
        at::scaled_dot_product_attention(image, image, image)}) {
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
