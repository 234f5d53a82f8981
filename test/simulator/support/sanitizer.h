#pragma once

// What the sanitizers cannot see by themselves. Nothing of it is left in a
// build without them.

#include <cstddef>

#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// For functions that change the stack, and may never return: ThreadSanitizer
// counts calls and returns, AddressSanitizer would leave marks around locals.
#if __has_feature(thread_sanitizer)
#define MPS_SIMULATOR_CHANGES_STACK __attribute__((disable_sanitizer_instrumentation))
#elif __has_feature(address_sanitizer)
#define MPS_SIMULATOR_CHANGES_STACK __attribute__((no_sanitize("address")))
#else
#define MPS_SIMULATOR_CHANGES_STACK
#endif

namespace mps_simulator::sanitizer {

// Until it is allowed again, each use of the memory is reported. Memory that
// goes back to the system must be allowed first: it may return as anything.
inline void forbid_memory([[maybe_unused]] const void* start, [[maybe_unused]] size_t length) {
#if __has_feature(address_sanitizer)
  __asan_poison_memory_region(start, length);
#endif
}

inline void allow_memory([[maybe_unused]] const void* start, [[maybe_unused]] size_t length) {
#if __has_feature(address_sanitizer)
  __asan_unpoison_memory_region(start, length);
#endif
}

// The stack that was left, as the one that was entered gets to know it.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
};

// Around each change to another stack: `leave_for` before it, with a place that
// belongs to the old stack; `arrive` after it, with what that stack had kept
// when it was left itself (nullptr on a new one).
inline void leave_for([[maybe_unused]] void** kept, [[maybe_unused]] const Stack& next) {
#if __has_feature(address_sanitizer)
  __sanitizer_start_switch_fiber(kept, next.bottom, next.size);
#endif
}

inline void arrive([[maybe_unused]] void* kept, [[maybe_unused]] Stack* previous = nullptr) {
#if __has_feature(address_sanitizer)
  __sanitizer_finish_switch_fiber(kept, previous ? &previous->bottom : nullptr, previous ? &previous->size : nullptr);
#endif
}

} // namespace mps_simulator::sanitizer
