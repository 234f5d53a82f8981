#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

@class SimulatedBuffer;

namespace mps_simulator {

// The bytes of a buffer that a GPU command touches.
struct GpuAccess {
  const SimulatedBuffer* buffer;
  const char* begin;
  const char* end;
  bool writes;
};

// Who touched some bytes last.
struct Accessor {
  uint64_t id; // a number of the map's user: of a pass, of a command
  const SimulatedBuffer* buffer; // as an identity: it may be gone
  std::shared_ptr<const std::string> name; // for a message
};

// The last writer of each byte and who has read it since. Of two accesses to the
// same bytes, one of which writes, one must come before the other: add() asks for
// each pair that a new access makes.
class AccessMap {
 public:
  using IsOrdered = c10::function_ref<bool(const Accessor& earlier)>;
  // Called for an access that is not ordered, with whether that one wrote.
  using OnConflict = c10::function_ref<void(const Accessor& earlier, bool wrote)>;

  void add(const GpuAccess& access, const Accessor& accessor, IsOrdered is_ordered, OnConflict on_conflict);
  // The memory may belong to another resource from now on.
  void forget(const char* begin, const char* end);
  void clear() {
    stretches_.clear();
  }

 private:
  struct Stretch {
    const char* end;
    bool written;
    Accessor writer;
    std::vector<Accessor> readers;
  };
  using Stretches = std::map<const char*, Stretch>; // by their first byte

  void split_at(const char* address);

  Stretches stretches_;
};

} // namespace mps_simulator
