#include "metal/limits.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

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

} // namespace mps_simulator
