#include "shader/threadgroup_memory.h"

#include <cstring>
#include <new>

#include <sys/mman.h>

namespace mps_simulator::shader {
namespace {

constexpr size_t kPages = 32 * 1024;
constexpr size_t kGuard = 1024 * 1024;
constexpr size_t kAlignment = 16;
constexpr size_t kMargin = 256;
constexpr int kPattern = 0xa5;

} // namespace

ThreadgroupMemory::ThreadgroupMemory() {
  void* memory = mmap(
      nullptr, kGuard + kPages + kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  reserved_ = static_cast<char*>(memory);
  // One page more, for the margin of the longest memory.
  if (mprotect(reserved_ + kGuard - 4096, 4096 + kPages, PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
}

char* ThreadgroupMemory::reserve(size_t length) {
  length_ = length;
  start_ = reserved_ + kGuard + kPages - (length + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(start_ - kMargin, kPattern, kMargin);
  return start_;
}

bool ThreadgroupMemory::is_near(uintptr_t address) const {
  const auto first = reinterpret_cast<uintptr_t>(reserved_);
  return address >= first && address < first + kGuard + kPages + kGuard;
}

size_t ThreadgroupMemory::overwritten_in_front() const {
  for (size_t distance = 1; distance <= kMargin; ++distance) {
    if (start_[-static_cast<ptrdiff_t>(distance)] != static_cast<char>(kPattern)) {
      return distance;
    }
  }
  return 0;
}

} // namespace mps_simulator::shader
