#pragma once

// The order in which the engine takes its locks, which debug builds assert.

#include <c10/util/Exception.h>

#include <cstdint>
#include <mutex>

namespace at::mps {

/// A thread that holds a lock may take only locks of a later rank. The
/// allocator's lock, which has no rank, comes between UNDERWAY and CAPTURE: the
/// allocator calls filter and observer while it holds it. A generator's lock
/// comes before UNDERWAY.
enum class MPSLockRank : uint8_t {
  // MPSCommandGraph's
  GRAPH,
  // the stream's queue
  QUEUE,
  // MPSCaptureUnderway
  UNDERWAY,
  // MPSGraphCapture's
  CAPTURE,
  // MPSHostComputations'
  HOST,
  // those that wait for none
  LAST,
};

/// Notes that a thread takes a lock, and gives it back.
class MPSLockOrder {
 public:
  static void take(MPSLockRank rank) {
#ifndef NDEBUG
    TORCH_INTERNAL_ASSERT(
        held() >> static_cast<int>(rank) == 0,
        "a thread takes the lock of rank ",
        static_cast<int>(rank),
        " while it holds ",
        held());
    held() |= bit(rank);
#endif
  }
  static void giveBack(MPSLockRank rank) {
#ifndef NDEBUG
    held() &= ~bit(rank);
#endif
  }

 private:
  static uint32_t bit(MPSLockRank rank) {
    return 1u << static_cast<int>(rank);
  }
  static uint32_t& held() {
    static thread_local uint32_t ranks = 0;
    return ranks;
  }
};

/// A mutex with a place in the order.
template <MPSLockRank rank>
class MPSMutex {
 public:
  void lock() {
    MPSLockOrder::take(rank);
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    MPSLockOrder::giveBack(rank);
  }

 private:
  std::mutex mutex_;
};

} // namespace at::mps
