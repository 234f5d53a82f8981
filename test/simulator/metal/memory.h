#pragma once

#include <cstddef>
#include <cstdint>

namespace mps_simulator {

constexpr size_t kMaximumThreadsPerThreadgroup = 1024;
constexpr size_t kMaximumThreadgroupMemory = 32 * 1024;
constexpr size_t kThreadgroupMemoryAlignment = 16;
// Of the families Apple2 to Apple9 alike, by Apple's feature set tables.
constexpr size_t kConstantOffsetAlignment = 4;
constexpr size_t kMaximumBytes = 4096; // of setBytes:length:atIndex:
constexpr size_t kBufferSlots = 31;

// Of the whole machine, or of the container that the process runs in.
size_t physical_memory();

// In what order the threads of the next dispatch run. Metal leaves it open, so
// the order differs from dispatch to dispatch, by MPS_SIMULATOR_SEED: a kernel
// whose threads write to the same place does not give the right result by
// chance.
uint64_t next_thread_order();

// Restarts the sequence of orders as at the start of the process.
void restart_thread_orders();

// Page of the host, which no-copy buffers must respect.
size_t page_size();

// Where to ask the system for memory: Metal promises no address of a buffer, so
// it depends on the seed.
void* address_hint();

size_t round_to_pages(size_t length);
// Page-aligned memory, counted as allocated by the device. Null when there is
// none left. Pages are touched only as they are used.
void* allocate_pages(size_t length);
void free_pages(void* pointer, size_t length);
size_t allocated_bytes();
// For memory that another function has allocated; negative when it is freed.
void count_allocated(ptrdiff_t bytes);

// Fills memory whose content Metal leaves undefined with a pattern that reads
// as NaN in every floating-point type and as a large number in the wider
// integers. Has no effect with validation off, or in null mode.
void poison(void* pointer, size_t length);

} // namespace mps_simulator
