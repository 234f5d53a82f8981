#pragma once

#include <cstddef>
#include <cstdint>

namespace mps_simulator {

// Memory between address ranges that are inaccessible. It ends where its last
// page ends, as nearly as 16-byte alignment lets it (or begins where its first
// page begins: see GuardSide), so that an access beyond it faults. The rest of
// the pages is filled with a pattern, which shows when it is overwritten.
struct GuardedMemory {
  char* start = nullptr; // what was asked for
  size_t length = 0;
  char* pages = nullptr; // what may be accessed
  size_t pages_length = 0;

  explicit operator bool() const {
    return start != nullptr;
  }
};

// How far beyond its pages an address is still taken for a miss of this memory.
constexpr size_t kGuardLength = size_t{16} << 20;

// How many of those released last keep their addresses, where accesses fault.
constexpr size_t kMostReleased = 256;

// Memory without a start when guards are off (validation off, null mode,
// MPS_SIMULATOR_GUARD=off), when the process runs out of mappings (reported
// once), or out of memory.
GuardedMemory allocate_guarded(size_t length);
void free_guarded(const GuardedMemory& memory);

// The first overwritten byte outside of the memory, relative to its start; 0 when
// there is none. Restores the pattern, so that it is reported once.
ptrdiff_t find_overwritten(const GuardedMemory& memory);

// The content of a binding that is no buffer, moved again for each command. Keeps
// its pages; `length` may be up to a page.
class GuardedScratch {
 public:
  GuardedScratch();
  GuardedScratch(const GuardedScratch&) = delete;
  GuardedScratch& operator=(const GuardedScratch&) = delete;

  // False when there was no memory for it.
  bool usable() const {
    return pages_ != nullptr;
  }
  const GuardedMemory& place(const void* bytes, size_t length);

 private:
  char* pages_ = nullptr;
  GuardedMemory memory_;
};

} // namespace mps_simulator
