#include "metal/guarded_memory.h"

#include "metal/memory.h"
#include "support/settings.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

namespace mps_simulator {

namespace {

// Reads as NaN in every floating-point type, like fresh memory, but differs
// from it, so that bytes read in front of a buffer are not taken for its
// content.
constexpr uint8_t kPattern[2] = {0xF5, 0x7F};
constexpr size_t kAlignment = 16;
// Each allocation splits the process's mappings in two or three places.
constexpr size_t kMappingsEach = 3;
constexpr size_t kMappingsOfOthers = 16 * 1024;

std::atomic<size_t> alive{0};

size_t most_alive() {
  static const size_t limit = [] {
    size_t mappings = 65530;
    std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
    return mappings > kMappingsOfOthers ? (mappings - kMappingsOfOthers) / kMappingsEach : 0;
  }();
  return limit;
}

// Addresses of released memory are not reused soon, so that an access through a
// stale pointer faults.
struct Quarantine {
  std::mutex mutex;
  std::deque<std::pair<char*, size_t>> ranges;
};

Quarantine& quarantine() {
  static auto* instance = new Quarantine;
  return *instance;
}

size_t round_up(size_t length, size_t unit) {
  return (length + unit - 1) / unit * unit;
}

void tell_once(const char* reason) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    std::fprintf(
        stderr,
        "MPS simulator: %s; further buffers have no guard pages, and accesses "
        "beyond their ends may go unnoticed\n",
        reason);
  }
}

// What memory from this address on holds, for a page.
const char* pattern_from(const char* address) {
  // Never destroyed: the GPU's thread may still look at buffers while the process exits.
  static const auto* pattern = [] {
    auto* bytes = new std::vector<char>(page_size() + 1);
    for (size_t i = 0; i < bytes->size(); ++i) {
      (*bytes)[i] = static_cast<char>(kPattern[i % 2]);
    }
    return bytes;
  }();
  return pattern->data() + (reinterpret_cast<uintptr_t>(address) & 1);
}

void fill_pattern(char* first, const char* end) {
  std::memcpy(first, pattern_from(first), static_cast<size_t>(end - first));
}

const char* first_overwritten(const char* first, const char* end) {
  const char* pattern = pattern_from(first);
  if (std::memcmp(first, pattern, static_cast<size_t>(end - first)) == 0) {
    return nullptr;
  }
  return std::mismatch(first, end, pattern).first;
}

// Nearest to the far end first: what a loop that went too far wrote first.
const char* overwritten_in_front(const char* first, const char* end) {
  const char* found = first_overwritten(first, end);
  if (!found) {
    return nullptr;
  }
  while (end > found && end[-1] == *pattern_from(end - 1)) {
    --end;
  }
  return end - 1;
}

void fill_around(const GuardedMemory& memory) {
  fill_pattern(memory.pages, memory.start);
  fill_pattern(memory.start + memory.length, memory.pages + memory.pages_length);
}

// `pages_length` accessible bytes between guards, or null.
char* reserve(size_t pages_length) {
  char* reserved = static_cast<char*>(mmap(
      address_hint(), pages_length + 2 * kGuardLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (reserved == MAP_FAILED) {
    return nullptr;
  }
  if (mprotect(reserved + kGuardLength, pages_length, PROT_READ | PROT_WRITE) != 0) {
    munmap(reserved, pages_length + 2 * kGuardLength);
    return nullptr;
  }
  return reserved + kGuardLength;
}

GuardedMemory placed(char* pages, size_t pages_length, size_t length, size_t alignment) {
  const bool at_end = settings().guard_side != GuardSide::start;
  char* start = at_end ? pages + pages_length - round_up(length, alignment) : pages;
  return {start, length, pages, pages_length};
}

} // namespace

GuardedMemory allocate_guarded(size_t length) {
  auto& current = settings();
  if (!current.validation || current.null_mode || current.guard_side == GuardSide::none) {
    return {};
  }
  if (alive.fetch_add(1, std::memory_order_relaxed) >= most_alive()) {
    alive.fetch_sub(1, std::memory_order_relaxed);
    tell_once("as many buffers are alive as vm.max_map_count allows to guard");
    return {};
  }
  const size_t pages_length = round_up(length ? length : 1, page_size());
  char* pages = reserve(pages_length);
  if (!pages) {
    alive.fetch_sub(1, std::memory_order_relaxed);
    tell_once("the system refuses memory between guard pages");
    return {};
  }
  const auto memory = placed(pages, pages_length, length, kAlignment);
  fill_around(memory);
  return memory;
}

void free_guarded(const GuardedMemory& memory) {
  alive.fetch_sub(1, std::memory_order_relaxed);
  char* const reserved = memory.pages - kGuardLength;
  const size_t length = memory.pages_length + 2 * kGuardLength;
  // Gives the memory back, and keeps its addresses.
  if (mmap(
          memory.pages,
          memory.pages_length,
          PROT_NONE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
          -1,
          0) == MAP_FAILED) {
    munmap(reserved, length);
    return;
  }
  auto& kept = quarantine();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.ranges.emplace_back(reserved, length);
  if (kept.ranges.size() > kMostReleased) {
    munmap(kept.ranges.front().first, kept.ranges.front().second);
    kept.ranges.pop_front();
  }
}

ptrdiff_t find_overwritten(const GuardedMemory& memory) {
  const char* end = memory.start + memory.length;
  const char* found = first_overwritten(end, memory.pages + memory.pages_length);
  if (!found) {
    found = overwritten_in_front(memory.pages, memory.start);
  }
  if (!found) {
    return 0;
  }
  fill_around(memory);
  return found - memory.start;
}

GuardedScratch::GuardedScratch() : pages_(reserve(page_size())) {}

const GuardedMemory& GuardedScratch::place(const void* bytes, size_t length) {
  // Kernels take their data at any address.
  memory_ = placed(pages_, page_size(), length, 1);
  std::memcpy(memory_.start, bytes, length);
  fill_around(memory_);
  return memory_;
}

} // namespace mps_simulator
