#include "metal/memory.h"

#include "support/process.h"
#include "support/random.h"
#include "support/settings.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

namespace mps_simulator {

size_t physical_memory() {
  static const size_t memory = [] {
    size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::ifstream file("/sys/fs/cgroup/memory.max");
    size_t limit = 0;
    if (file >> limit && limit > 0) {
      bytes = std::min(bytes, limit);
    }
    return bytes;
  }();
  return memory;
}

namespace {

std::atomic<uint64_t> dispatches{0};

} // namespace

uint64_t next_thread_order() {
  return mix_seed(settings().seed, dispatches++);
}

void restart_thread_orders() {
  dispatches = 0;
}

namespace {

std::atomic<size_t> allocated{0};

} // namespace

size_t page_size() {
  static const size_t size = sysconf(_SC_PAGESIZE);
  return size;
}

void* address_hint() {
#if __has_feature(thread_sanitizer)
  return nullptr; // It knows a few ranges of addresses only.
#else
  static SeededSequence sequence;
  // Far from where the system puts things by itself, and not too far apart: page
  // tables are memory too.
  constexpr uint64_t kFirst = uint64_t{0x2000} << 32;
  constexpr uint64_t kRegions = 256;
  constexpr uint64_t kRegionSize = uint64_t{64} << 30;
  const uint64_t region = mix_seed(settings().seed, 0) % kRegions;
  const uint64_t place = sequence.next() % kRegionSize;
  return reinterpret_cast<void*>((kFirst + region * kRegionSize + place) / page_size() * page_size());
#endif
}

size_t round_to_pages(size_t length) {
  return (length + page_size() - 1) / page_size() * page_size();
}

void* allocate_pages(size_t length) {
  length = round_to_pages(length);
  void* pointer =
      mmap(address_hint(), length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) {
    return nullptr;
  }
  allocated.fetch_add(length, std::memory_order_relaxed);
  return pointer;
}

void free_pages(void* pointer, size_t length) {
  length = round_to_pages(length);
  munmap(pointer, length);
  allocated.fetch_sub(length, std::memory_order_relaxed);
}

void count_allocated(ptrdiff_t bytes) {
  allocated.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}

size_t allocated_bytes() {
  return allocated.load(std::memory_order_relaxed);
}

void poison(void* pointer, size_t length) {
  // A forked child may share the memory with its parent.
  if (!settings().validation || settings().null_mode || device_lost_by_fork()) {
    return;
  }
  // NaN as half, bfloat, float and double; 2147188731 as int32.
  constexpr uint16_t kPattern = 0x7FFB;
  auto* bytes = static_cast<char*>(pointer);
  uint16_t block[2048];
  for (auto& word : block) {
    word = kPattern;
  }
  while (length > 0) {
    const size_t part = length < sizeof(block) ? length : sizeof(block);
    std::memcpy(bytes, block, part);
    bytes += part;
    length -= part;
  }
}

} // namespace mps_simulator
