#pragma once

#include <cstddef>

namespace mps_simulator {

// Page of the host, which no-copy buffers must respect.
size_t page_size();

// Page-aligned memory, counted as allocated by the device. Null when there is
// none left. Pages are touched only as they are used.
void* allocate_pages(size_t length);
void free_pages(void* pointer, size_t length);
size_t allocated_bytes();

// Fills memory whose content Metal leaves undefined with a pattern that reads as
// NaN in every floating-point type and as a large number in the wider integers.
// Does nothing with validation off, or in null mode.
void poison(void* pointer, size_t length);

} // namespace mps_simulator
