#include "graph/philox.h"

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

} // namespace mps_simulator::graph
