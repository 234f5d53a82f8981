#pragma once

#include <cstddef>

namespace mps_simulator {

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
