#include "metal/memory.h"
#include "support/settings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace mps_simulator {

namespace {

std::atomic<size_t> allocated{0};

size_t round_to_pages(size_t length) {
  return (length + page_size() - 1) / page_size() * page_size();
}

} // namespace

size_t page_size() {
  static const size_t size = sysconf(_SC_PAGESIZE);
  return size;
}

void* allocate_pages(size_t length) {
  length = round_to_pages(length);
  void* pointer = mmap(
      nullptr,
      length,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
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

size_t allocated_bytes() {
  return allocated.load(std::memory_order_relaxed);
}

void poison(void* pointer, size_t length) {
  if (!settings().validation || settings().null_mode) {
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
