// Barriers, SIMD-group functions, SIMD-group matrices. Everything
// here rests on one primitive: all lanes arrive, one function runs over what
// they brought.
#pragma once
#include "../mps_simulator_shader_abi.h"
#include "atomics.h"
#include "vectors.h"

static const mps_simulator_shader_abi::Runtime* mps_simulator_shader_runtime;

namespace metal {

constexpr uint __lanes = mps_simulator_shader_abi::kSimdWidth;

// Not inlined, so that the return address tells the call sites apart; nomerge,
// so that the compiler keeps them apart.
__attribute__((noinline, convergent, nomerge, unused)) static void __arrive(
    mps_simulator_shader_abi::Scope scope,
    void* slot,
    mps_simulator_shader_abi::Operation operation) {
  mps_simulator_shader_runtime->arrive(scope, __builtin_return_address(0), slot, operation);
}
#define MPS_SIMULATOR_COLLECTIVE __attribute__((always_inline)) inline

MPS_SIMULATOR_COLLECTIVE void threadgroup_barrier(mem_flags, thread_scope = thread_scope_threadgroup) {
  char slot;
  __arrive(mps_simulator_shader_abi::Scope::threadgroup, &slot, [](void**) {});
}
MPS_SIMULATOR_COLLECTIVE void simdgroup_barrier(mem_flags, thread_scope = thread_scope_simdgroup) {
  char slot;
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, [](void**) {});
}

// `values` of the lanes that are present go in; `function(values, present, lane)`
// gives what each of them gets back.
template <class Result, class In, class Function>
struct __exchange {
  In in;
  Result out;
  static void run(void** slots) {
    In values[__lanes] = {};
    bool present[__lanes] = {};
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (slots[lane]) {
        present[lane] = true;
        values[lane] = static_cast<__exchange*>(slots[lane])->in;
      }
    }
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (present[lane]) {
        static_cast<__exchange*>(slots[lane])->out = Function()(values, present, lane);
      }
    }
  }
};
template <class Result, class Function, class In>
MPS_SIMULATOR_COLLECTIVE Result __exchanged(In in) {
  __exchange<Result, In, Function> slot{in, Result{}};
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__exchange<Result, In, Function>::run);
  return slot.out;
}

// Reduces the values of the lanes that are present.
template <class T, class Operation>
struct __reduce {
  T operator()(const T* values, const bool* present, uint) const {
    T result{};
    bool started = false;
    for (uint i = 0; i < __lanes; ++i) {
      if (present[i]) {
        result = started ? Operation()(result, values[i]) : values[i];
        started = true;
      }
    }
    return result;
  }
};
#define MPS_SIMULATOR_REDUCTION(name, expression)        \
  struct __##name {                                      \
    template <class T>                                   \
    T operator()(T a, T b) const {                       \
      if constexpr (__component_count<T> > 1) {          \
        return __map(*this, a, b);                       \
      } else {                                           \
        return static_cast<T>(expression);               \
      }                                                  \
    }                                                    \
  };                                                     \
  template <class T>                                     \
  MPS_SIMULATOR_COLLECTIVE T name(T value) {             \
    return __exchanged<T, __reduce<T, __##name>>(value); \
  }
MPS_SIMULATOR_REDUCTION(simd_sum, a + b)
MPS_SIMULATOR_REDUCTION(simd_product, a* b)
MPS_SIMULATOR_REDUCTION(simd_min, b < a || a != a ? b : a)
MPS_SIMULATOR_REDUCTION(simd_max, b > a || a != a ? b : a)
#undef MPS_SIMULATOR_REDUCTION

template <class T>
struct __value_and_lane {
  T value;
  uint lane;
};

// A lane that does not exist or is not present leaves the caller's own value.
template <class T>
MPS_SIMULATOR_COLLECTIVE T simd_shuffle(T value, uint lane) {
  struct Take {
    T operator()(const __value_and_lane<T>* values, const bool* present, uint lane) const {
      const uint wanted = values[lane].lane;
      return values[wanted < __lanes && present[wanted] ? wanted : lane].value;
    }
  };
  return __exchanged<T, Take>(__value_and_lane<T>{value, lane});
}
inline uint __lane() {
  return mps_simulator_shader_runtime->lane();
}
#define MPS_SIMULATOR_SHUFFLE(name, from)                    \
  template <class T>                                         \
  MPS_SIMULATOR_COLLECTIVE T name(T value, ushort operand) { \
    return simd_shuffle(value, from);                        \
  }
MPS_SIMULATOR_SHUFFLE(simd_broadcast, operand)
MPS_SIMULATOR_SHUFFLE(simd_shuffle_xor, __lane() ^ operand)
MPS_SIMULATOR_SHUFFLE(simd_shuffle_down, __lane() + operand)
MPS_SIMULATOR_SHUFFLE(simd_shuffle_up, __lane() - operand)
#undef MPS_SIMULATOR_SHUFFLE

// The place of a lane's first element; the second is in the next column.
constexpr uint __matrix_row(uint lane) {
  return ((lane / 4) & 4) + (lane / 2) % 4;
}
constexpr uint __matrix_column(uint lane) {
  return ((lane / 4) & 2) * 2 + (lane % 2) * 2;
}

// 8x8 matrices, two elements a lane.
template <class T, int columns, int rows>
struct simdgroup_matrix {
  static_assert(columns == 8 && rows == 8, "SIMD-group matrices are 8x8");
  vec<T, 2> __elements;

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    const uint lane = __lane();
    for (uint i = 0; i < 2; ++i) {
      __elements[i] = __matrix_row(lane) == __matrix_column(lane) + i ? diagonal : T(0);
    }
  }
  vec<T, 2>& thread_elements() {
    return __elements;
  }
  const vec<T, 2>& thread_elements() const {
    return __elements;
  }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int columns, int rows = columns>
inline simdgroup_matrix<T, columns, rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, columns, rows> result;
  result.__elements = vec<T, 2>(value);
  return result;
}
// Calls function(slot, row, column, i) for both elements of each lane that is present.
template <class Slot, class Function>
inline void __each_element(void** slots, Function function) {
  for (uint lane = 0; lane < __lanes; ++lane) {
    for (uint i = 0; slots[lane] && i < 2; ++i) {
      function(*static_cast<Slot*>(slots[lane]), __matrix_row(lane), __matrix_column(lane) + i, i);
    }
  }
}
template <class T, class Pointer>
struct __matrix_transfer {
  simdgroup_matrix<T, 8, 8>* matrix;
  Pointer pointer;
  ulong row_length;
  ulong2 origin;
  bool transposed;

  Pointer place(uint row, uint column) const {
    if (transposed) {
      const uint old = row;
      row = column;
      column = old;
    }
    return pointer + (origin.y + row) * row_length + origin.x + column;
  }
  template <bool is_load>
  static void run(void** slots) {
    __each_element<__matrix_transfer>(slots, [](__matrix_transfer& slot, uint row, uint column, uint i) {
      if constexpr (is_load) {
        slot.matrix->__elements[i] = static_cast<T>(*slot.place(row, column));
      } else {
        *slot.place(row, column) = slot.matrix->__elements[i];
      }
    });
  }
};
template <class T>
MPS_SIMULATOR_COLLECTIVE void simdgroup_load(
    simdgroup_matrix<T, 8, 8>& matrix,
    const T* source,
    ulong elements_per_row = 8,
    ulong2 origin = ulong2(0),
    bool transpose = false) {
  __matrix_transfer<T, const T*> slot{&matrix, source, elements_per_row, origin, transpose};
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_transfer<T, const T*>::template run<true>);
}
template <class T>
MPS_SIMULATOR_COLLECTIVE void simdgroup_store(
    const simdgroup_matrix<T, 8, 8>& matrix,
    T* destination,
    ulong elements_per_row = 8,
    ulong2 origin = ulong2(0),
    bool transpose = false) {
  __matrix_transfer<T, T*> slot{
      const_cast<simdgroup_matrix<T, 8, 8>*>(&matrix), destination, elements_per_row, origin, transpose};
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_transfer<T, T*>::template run<false>);
}

template <class D, class A, class B, class C>
struct __matrix_product {
  simdgroup_matrix<D, 8, 8>* result;
  const simdgroup_matrix<A, 8, 8>* a;
  const simdgroup_matrix<B, 8, 8>* b;
  const simdgroup_matrix<C, 8, 8>* c; // null: nothing is added

  static void run(void** slots) {
    float a[8][8] = {};
    float b[8][8] = {};
    float d[8][8] = {};
    __each_element<__matrix_product>(slots, [&](const __matrix_product& slot, uint row, uint column, uint i) {
      a[row][column] = static_cast<float>(slot.a->__elements[i]);
      b[row][column] = static_cast<float>(slot.b->__elements[i]);
      d[row][column] = slot.c ? static_cast<float>(slot.c->__elements[i]) : 0.0f;
    });
    for (uint row = 0; row < 8; ++row) {
      for (uint k = 0; k < 8; ++k) {
        for (uint column = 0; column < 8; ++column) {
          d[row][column] += a[row][k] * b[k][column];
        }
      }
    }
    __each_element<__matrix_product>(slots, [&](__matrix_product& slot, uint row, uint column, uint i) {
      slot.result->__elements[i] = static_cast<D>(d[row][column]);
    });
  }
};
template <class D, class A, class B>
MPS_SIMULATOR_COLLECTIVE void simdgroup_multiply(
    simdgroup_matrix<D, 8, 8>& d,
    const simdgroup_matrix<A, 8, 8>& a,
    const simdgroup_matrix<B, 8, 8>& b) {
  __matrix_product<D, A, B, D> slot{&d, &a, &b, nullptr};
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_product<D, A, B, D>::run);
}
template <class D, class A, class B, class C>
MPS_SIMULATOR_COLLECTIVE void simdgroup_multiply_accumulate(
    simdgroup_matrix<D, 8, 8>& d,
    const simdgroup_matrix<A, 8, 8>& a,
    const simdgroup_matrix<B, 8, 8>& b,
    const simdgroup_matrix<C, 8, 8>& c) {
  __matrix_product<D, A, B, C> slot{&d, &a, &b, &c};
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_product<D, A, B, C>::run);
}
template <class T>
MPS_SIMULATOR_COLLECTIVE simdgroup_matrix<T, 8, 8> operator*(
    const simdgroup_matrix<T, 8, 8>& a,
    const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> result;
  simdgroup_multiply(result, a, b);
  return result;
}
#undef MPS_SIMULATOR_COLLECTIVE

} // namespace metal
