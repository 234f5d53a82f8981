#pragma once

// Included before every file of the MPS backend. Apple's toolchain differs from
// this one in small ways that the backend, which is never edited, relies on.

#if defined(__cplusplus)

// libc++ brings these along with others; libstdc++ wants them named.
#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

// int64_t is long long on macOS and long here, so a call that mixes int64_t
// with a long long literal or NSInteger has two types here and one there.
namespace std {
#define MPS_SIMULATOR_MIXED(name, left, right, result)                   \
  constexpr result name(const left& a, const right& b) {                 \
    return name<result>(static_cast<result>(a), static_cast<result>(b)); \
  }
#define MPS_SIMULATOR_MIXED_BOTH_WAYS(left, right, result) \
  MPS_SIMULATOR_MIXED(min, left, right, result)            \
  MPS_SIMULATOR_MIXED(min, right, left, result)            \
  MPS_SIMULATOR_MIXED(max, left, right, result)            \
  MPS_SIMULATOR_MIXED(max, right, left, result)
MPS_SIMULATOR_MIXED_BOTH_WAYS(long, long long, long long)
MPS_SIMULATOR_MIXED_BOTH_WAYS(unsigned long, unsigned long long, unsigned long long)
#undef MPS_SIMULATOR_MIXED_BOTH_WAYS
#undef MPS_SIMULATOR_MIXED
} // namespace std

#endif

#include <Availability.h>

// A macOS system header that everything includes defines it; there it is the
// variable, since processors differ.
#include <mach/vm_page_size.h>
#ifndef PAGE_SIZE
#define PAGE_SIZE vm_page_size
#endif
#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
