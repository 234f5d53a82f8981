#include "graph/random_fill.h"


#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

namespace mps_simulator::graph {

PhiloxState PhiloxState::read(const int32_t* words) {
  PhiloxState state;
  state.version = words[0];
  for (std::size_t i = 0; i < state.counter.size(); i++) {
    state.counter[i] = words[1 + i];
  }
  for (std::size_t i = 0; i < state.key.size(); i++) {
    state.key[i] = words[5 + i];
  }
  return state;
}

void PhiloxState::write(int32_t* words) const {
  words[0] = version;
  for (std::size_t i = 0; i < counter.size(); i++) {
    words[1 + i] = counter[i];
  }
  for (std::size_t i = 0; i < key.size(); i++) {
    words[5 + i] = key[i];
  }
}

void PhiloxState::advance(uint64_t blocks) {
  uint64_t carry = 0;
  const uint32_t addends[4] = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(blocks >> 32), 0, 0};
  for (std::size_t i = 0; i < counter.size(); i++) {
    const uint64_t sum = carry + counter[i] + addends[i];
    counter[i] = static_cast<uint32_t>(sum);
    carry = sum >> 32;
  }
}

std::array<uint32_t, 4> Philox::block(uint64_t number) const {
  PhiloxState state = state_;
  state.advance(number);
  std::array<uint32_t, 4> x = state.counter;
  std::array<uint32_t, 2> key = state.key;
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; round++) {
    const uint64_t product0 = 0xD2511F53ull * x[0];
    const uint64_t product1 = 0xCD9E8D57ull * x[2];
    x = {
        static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key[0],
        static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key[1],
        static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

namespace {

constexpr int64_t grain_size = 1 << 14;

template <typename Element, typename Function>
at::Tensor fill(at::IntArrayRef sizes, at::ScalarType type, Function element) {
  const at::Tensor result = at::empty(sizes, at::TensorOptions().device(at::kCPU).dtype(type));
  Element* data = result.mutable_data_ptr<Element>();
  at::parallel_for(0, result.numel(), grain_size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      data[i] = element(i);
    }
  });
  return result;
}

// As many random bits as the type can tell apart, so that rounding never reaches
// the upper end.
int bits_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<at::Half>::digits;
    case at::kBFloat16:
      return std::numeric_limits<at::BFloat16>::digits;
    default:
      return std::numeric_limits<float>::digits;
  }
}

// From 0 to below 1.
double unit(uint32_t word, int bits) {
  return std::ldexp(static_cast<double>(word >> (32 - bits)), -bits);
}

// From above 0 to 1, for logarithms.
double positive_unit(uint32_t word) {
  return std::ldexp(static_cast<double>(word) + 1, -32);
}

at::Tensor uniform_reals(const RandomParameters& parameters, at::IntArrayRef sizes, const Philox& stream) {
  const double range = parameters.maximum - parameters.minimum;
  const int bits = bits_of(parameters.type);
  const at::Tensor result = fill<float>(sizes, at::kFloat, [&](int64_t i) {
    return static_cast<float>(parameters.minimum + range * unit(stream.word(i), bits));
  });
  return result.to(parameters.type);
}

// Box and Muller: two words make two numbers.
at::Tensor normal(const RandomParameters& parameters, at::IntArrayRef sizes, const Philox& stream) {
  const at::Tensor result = fill<float>(sizes, at::kFloat, [&](int64_t i) {
    const auto words = stream.block(i / 4);
    const size_t first = i % 4 / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(positive_unit(words[first])));
    const double angle = 2 * M_PI * positive_unit(words[first + 1]);
    const double number = radius * (i % 2 ? std::sin(angle) : std::cos(angle));
    return static_cast<float>(parameters.mean + parameters.standard_deviation * number);
  });
  return result.to(parameters.type);
}

double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / M_SQRT2);
}

// Inverse of the distribution by bisection: slow, simple and exact enough.
double normal_quantile(double probability, double low, double high) {
  constexpr int steps = 60;
  for (int step = 0; step < steps; step++) {
    const double middle = 0.5 * (low + high);
    (normal_distribution(middle) < probability ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

at::Tensor truncated_normal(const RandomParameters& parameters, at::IntArrayRef sizes, const Philox& stream) {
  const double low = (parameters.minimum - parameters.mean) / parameters.standard_deviation;
  const double high = (parameters.maximum - parameters.mean) / parameters.standard_deviation;
  const double first = normal_distribution(low);
  const double last = normal_distribution(high);
  const at::Tensor result = fill<float>(sizes, at::kFloat, [&](int64_t i) {
    const double probability = first + (last - first) * positive_unit(stream.word(i));
    return static_cast<float>(
        parameters.mean + parameters.standard_deviation * normal_quantile(probability, low, high));
  });
  return result.to(parameters.type);
}

// The high half of a product maps a word to a range without a division.
int64_t scale(uint64_t random, int64_t minimum, uint64_t count) {
  if (count == 0) { // all 2^64 numbers
    return static_cast<int64_t>(random);
  }
  const auto offset = static_cast<uint64_t>(static_cast<unsigned __int128>(random) * count >> 64);
  return static_cast<int64_t>(static_cast<uint64_t>(minimum) + offset);
}

template <typename Integer>
at::Tensor uniform_integers(const RandomParameters& parameters, at::IntArrayRef sizes, const Philox& stream) {
  const int64_t minimum = std::max<int64_t>(parameters.minimum_integer, std::numeric_limits<Integer>::lowest());
  const int64_t maximum = std::min<int64_t>(parameters.maximum_integer, std::numeric_limits<Integer>::max());
  const uint64_t count = static_cast<uint64_t>(maximum) - static_cast<uint64_t>(minimum) + 1;
  return fill<Integer>(
      sizes, parameters.type, [&](int64_t i) { return static_cast<Integer>(scale(stream.pair(i), minimum, count)); });
}

} // namespace

RandomResult random_tensor(const RandomParameters& parameters, at::IntArrayRef sizes, PhiloxState state) {
  const Philox stream(state);
  RandomResult result;
  const uint64_t elements = c10::multiply_integers(sizes);
  const bool pairs = c10::isIntegralType(parameters.type, /*includeBool=*/false);
  state.advance(pairs ? (elements + 1) / 2 : (elements + 3) / 4);
  result.state = state;
  switch (parameters.distribution) {
    case Distribution::normal:
      result.values = normal(parameters, sizes, stream);
      break;
    case Distribution::truncated_normal:
      result.values = truncated_normal(parameters, sizes, stream);
      break;
    case Distribution::uniform:
      if (parameters.type == at::kInt) {
        result.values = uniform_integers<int32_t>(parameters, sizes, stream);
      } else if (parameters.type == at::kLong) {
        result.values = uniform_integers<int64_t>(parameters, sizes, stream);
      } else {
        result.values = uniform_reals(parameters, sizes, stream);
      }
      break;
  }
  return result;
}

} // namespace mps_simulator::graph
