// What clang calls for code compiled with
// -fsanitize-coverage=func,inline-8bit-counters,pc-table: one byte a function,
// which its first instruction counts up, and a table of their addresses.

#include "support/functions_run.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace {

struct Entry {
  uintptr_t address;
  uintptr_t flags;
};

// The library has one table of each, which the linker made of those of all
// objects; each object passes on the same.
uint8_t* first_counter = nullptr;
uint8_t* end_of_counters = nullptr;
const Entry* first_entry = nullptr;

} // namespace

// A sanitizer's runtime has its own.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
extern "C" {

void __sanitizer_cov_8bit_counters_init(uint8_t* first, uint8_t* end) {
  first_counter = first;
  end_of_counters = end;
}

void __sanitizer_cov_pcs_init(const uintptr_t* first, const uintptr_t*) {
  first_entry = reinterpret_cast<const Entry*>(first);
}

} // extern "C"
#endif

namespace mps_simulator {

std::string functions_run_json() {
  std::string list = "[";
  Dl_info library{};
  if (first_counter && first_entry && dladdr(first_entry, &library)) {
    const auto base = reinterpret_cast<uintptr_t>(library.dli_fbase);
    for (std::ptrdiff_t i = 0; i < end_of_counters - first_counter; i++) {
      if (first_counter[i]) {
        list += (list.size() > 1 ? "," : "") + std::to_string(first_entry[i].address - base);
      }
    }
  }
  return list + "]";
}

void forget_functions_run() {
  std::fill(first_counter, end_of_counters, 0);
}

} // namespace mps_simulator
