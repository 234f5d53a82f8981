#pragma once

#include <cstddef>

namespace mps_simulator {

constexpr size_t kMaximumThreadsPerThreadgroup = 1024;
constexpr size_t kMaximumThreadgroupMemory = 32 * 1024;
constexpr size_t kThreadgroupMemoryAlignment = 16;
constexpr size_t kMaximumBytes = 4096; // of setBytes:length:atIndex:
constexpr size_t kBufferSlots = 31;

// Of the whole machine, or of the container that the process runs in.
size_t physical_memory();

} // namespace mps_simulator
