#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mps_simulator {

// A set of the numbers that passes have in the order in which they start. It
// remembers the newest kWindow; older ones count as members, so a set of those
// that come before another pass may miss a conflict but never reports a false
// one.
class PassSet {
 public:
  static constexpr uint64_t kWindow = 2048;

  bool contains(uint64_t pass) const {
    if (pass + kWindow <= newest_) {
      return true;
    }
    return pass <= newest_ && (word(pass) >> (pass % 64) & 1);
  }

  void add(uint64_t pass) {
    advance(pass);
    word(pass) |= uint64_t{1} << (pass % 64);
  }

  void add(const PassSet& other) {
    advance(other.newest_);
    PassSet moved = other;
    moved.advance(newest_);
    for (size_t i = 0; i < words_.size(); ++i) {
      words_[i] |= moved.words_[i];
    }
  }

  // From now on `pass` is the newest one.
  void advance(uint64_t pass) {
    if (pass <= newest_) {
      return;
    }
    if (pass - newest_ >= kWindow) {
      words_.fill(0);
    } else {
      for (uint64_t gone = newest_ + 1; gone <= pass; ++gone) {
        word(gone) &= ~(uint64_t{1} << (gone % 64));
      }
    }
    newest_ = pass;
  }

 private:
  uint64_t& word(uint64_t pass) {
    return words_[pass % kWindow / 64];
  }
  const uint64_t& word(uint64_t pass) const {
    return words_[pass % kWindow / 64];
  }

  uint64_t newest_ = 0;
  std::array<uint64_t, kWindow / 64> words_{};
};

} // namespace mps_simulator
