#pragma once

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
