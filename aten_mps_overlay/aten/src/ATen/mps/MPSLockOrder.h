#pragma once

// The order in which the engine takes its locks, which debug builds assert.

#include <c10/util/Exception.h>

#include <cstdint>
#include <mutex>

namespace at::mps {

/// Who holds a lock may wait for those after it, and for none before or beside
/// it. Between UNDERWAY and CAPTURE comes the allocator's, which calls back
/// with it held: the filter of beginAllocateToPool(), the buffer observer. A
/// generator's comes before UNDERWAY.
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
