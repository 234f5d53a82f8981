// Relaxed atomics and memory flags.
#pragma once
#include "scalars.h"

namespace metal {

enum memory_order { memory_order_relaxed };
enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
};

template <class T>
struct atomic {
  static_assert(
      __is_one_of<T, bool, int, uint, long, ulong, float>,
      "atomics exist for bool, int, uint, long, ulong and float");
  T __value;
};

typedef atomic<bool> atomic_bool;
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<ulong> atomic_ulong;
typedef atomic<float> atomic_float;

// Nothing else is assumed to be aligned; without this, atomics would be calls.
template <class T>
struct __aligned {
  typedef T type __attribute__((aligned(sizeof(T))));
};
template <class T>
inline typename __aligned<T>::type* __atomic_address(const volatile atomic<T>* object) {
  return reinterpret_cast<typename __aligned<T>::type*>(const_cast<T*>(&object->__value));
}

template <class T>
inline T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
  T value;
  __atomic_load(__atomic_address(object), &value, __ATOMIC_RELAXED);
  return value;
}
template <class T>
inline void atomic_store_explicit(volatile atomic<T>* object, __identity<T> value, memory_order) {
  __atomic_store(__atomic_address(object), &value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomic_exchange_explicit(volatile atomic<T>* object, __identity<T> value, memory_order) {
  T before;
  __atomic_exchange(__atomic_address(object), &value, &before, __ATOMIC_RELAXED);
  return before;
}
template <class T>
inline bool atomic_compare_exchange_weak_explicit(
    volatile atomic<T>* object,
    T* expected,
    __identity<T> desired,
    memory_order,
    memory_order) {
  return __atomic_compare_exchange(
      __atomic_address(object), expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

template <class T, class Change>
inline T __atomic_change(volatile atomic<T>* object, Change change) {
  T before = atomic_load_explicit(object, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(
      object, &before, change(before), memory_order_relaxed, memory_order_relaxed)) {
  }
  return before;
}
#define MPS_SIMULATOR_FETCH(name, expression)                                                                \
  template <class T>                                                                                         \
  inline T atomic_fetch_##name##_explicit(volatile atomic<T>* object, __identity<T> operand, memory_order) { \
    return __atomic_change(object, [=](T value) -> T { return expression; });                                \
  }
MPS_SIMULATOR_FETCH(add, value + operand)
MPS_SIMULATOR_FETCH(max, value < operand ? operand : value)
MPS_SIMULATOR_FETCH(min, operand < value ? operand : value)
#undef MPS_SIMULATOR_FETCH

} // namespace metal
