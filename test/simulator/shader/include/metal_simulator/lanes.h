// Barriers, SIMD-group and quad-group functions, SIMD-group matrices. Everything
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

template <class T>
struct __value_and_lane {
  T value;
  T other;
  uint lane;
};

// Reductions and scans over the lanes that are present, in groups of `width`.
template <class T, class Operation, uint width>
struct __reduce {
  T operator()(const T* values, const bool* present, uint lane) const {
    const uint first = lane / width * width;
    T result{};
    bool started = false;
    for (uint i = first; i < first + width; ++i) {
      if (present[i]) {
        result = started ? Operation()(result, values[i]) : values[i];
        started = true;
      }
    }
    return result;
  }
};
template <class T, class Operation, uint width, bool inclusive>
struct __scan {
  T operator()(const T* values, const bool* present, uint lane) const {
    T result = Operation::template identity<T>();
    for (uint i = lane / width * width; i < lane + (inclusive ? 1 : 0); ++i) {
      if (present[i]) {
        result = Operation()(result, values[i]);
      }
    }
    return result;
  }
};

struct __plus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
  template <class T>
  static T identity() {
    return T(0);
  }
};
struct __times {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
  template <class T>
  static T identity() {
    return T(1);
  }
};
#define MPS_SIMULATOR_CHOICE(name, op)                     \
  struct name {                                            \
    template <class T>                                     \
    T operator()(T a, T b) const {                         \
      return b op a || a != a ? b : a;                     \
    }                                                      \
    template <class T, int n>                              \
    vec<T, n> operator()(vec<T, n> a, vec<T, n> b) const { \
      for (int i = 0; i < n; ++i) {                        \
        a[i] = (*this)(a[i], b[i]);                        \
      }                                                    \
      return a;                                            \
    }                                                      \
  };
MPS_SIMULATOR_CHOICE(__smaller, <)
MPS_SIMULATOR_CHOICE(__larger, >)
#undef MPS_SIMULATOR_CHOICE
#define MPS_SIMULATOR_BITS(name, op) \
  struct name {                      \
    template <class T>               \
    T operator()(T a, T b) const {   \
      return static_cast<T>(a op b); \
    }                                \
  };
MPS_SIMULATOR_BITS(__bit_and, &)
MPS_SIMULATOR_BITS(__bit_or, |)
MPS_SIMULATOR_BITS(__bit_xor, ^)
#undef MPS_SIMULATOR_BITS

// From which lane a shuffle takes its value. A lane that does not exist or is
// not present leaves the caller's own value.
template <class T>
MPS_SIMULATOR_COLLECTIVE T __shuffled(T value, T other, uint from) {
  struct Take {
    T operator()(const __value_and_lane<T>* values, const bool* present, uint lane) const {
      const uint wanted = values[lane].lane;
      return wanted < __lanes && present[wanted] ? values[wanted].value : values[lane].other;
    }
  };
  return __exchanged<T, Take>(__value_and_lane<T>{value, other, from});
}
inline uint __lane() {
  return mps_simulator_shader_runtime->lane();
}

// A function of a group that takes one value of each lane.
#define MPS_SIMULATOR_OF_EACH(name, ...)       \
  template <class T>                           \
  MPS_SIMULATOR_COLLECTIVE T name(T value) {   \
    return __exchanged<T, __VA_ARGS__>(value); \
  }
#define MPS_SIMULATOR_GROUP(group, width)                                                           \
  MPS_SIMULATOR_OF_EACH(group##_sum, __reduce<T, __plus, width>)                                    \
  MPS_SIMULATOR_OF_EACH(group##_product, __reduce<T, __times, width>)                               \
  MPS_SIMULATOR_OF_EACH(group##_min, __reduce<T, __smaller, width>)                                 \
  MPS_SIMULATOR_OF_EACH(group##_max, __reduce<T, __larger, width>)                                  \
  MPS_SIMULATOR_OF_EACH(group##_and, __reduce<T, __bit_and, width>)                                 \
  MPS_SIMULATOR_OF_EACH(group##_or, __reduce<T, __bit_or, width>)                                   \
  MPS_SIMULATOR_OF_EACH(group##_xor, __reduce<T, __bit_xor, width>)                                 \
  MPS_SIMULATOR_OF_EACH(group##_prefix_inclusive_sum, __scan<T, __plus, width, true>)               \
  MPS_SIMULATOR_OF_EACH(group##_prefix_exclusive_sum, __scan<T, __plus, width, false>)              \
  MPS_SIMULATOR_OF_EACH(group##_prefix_inclusive_product, __scan<T, __times, width, true>)          \
  MPS_SIMULATOR_OF_EACH(group##_prefix_exclusive_product, __scan<T, __times, width, false>)         \
  MPS_SIMULATOR_COLLECTIVE bool group##_all(bool value) {                                           \
    return group##_and(value);                                                                      \
  }                                                                                                 \
  MPS_SIMULATOR_COLLECTIVE bool group##_any(bool value) {                                           \
    return group##_or(value);                                                                       \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle(T value, ushort lane) {                                \
    return __shuffled(value, value, __lane() / width * width + lane % width);                       \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_broadcast(T value, ushort lane) {                              \
    return group##_shuffle(value, lane);                                                            \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_xor(T value, ushort mask) {                            \
    const uint base = __lane() / width * width;                                                     \
    const uint target = (__lane() - base) ^ mask;                                                   \
    return __shuffled(value, value, target < width ? base + target : __lanes);                      \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_and_fill_down(T value, T fill, ushort delta) {         \
    const uint base = __lane() / width * width;                                                     \
    const uint target = __lane() - base + delta;                                                    \
    return __shuffled(value, fill, target < width ? base + target : __lanes);                       \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_and_fill_up(T value, T fill, ushort delta) {           \
    const uint base = __lane() / width * width;                                                     \
    const uint target = __lane() - base - delta;                                                    \
    return __shuffled(value, fill, target < width ? base + target : __lanes);                       \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_down(T value, ushort delta) {                          \
    return group##_shuffle_and_fill_down(value, value, delta);                                      \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_up(T value, ushort delta) {                            \
    return group##_shuffle_and_fill_up(value, value, delta);                                        \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_rotate_down(T value, ushort delta) {                   \
    return group##_shuffle(value, static_cast<ushort>((__lane() + delta) % width));                 \
  }                                                                                                 \
  template <class T>                                                                                \
  MPS_SIMULATOR_COLLECTIVE T group##_shuffle_rotate_up(T value, ushort delta) {                     \
    return group##_shuffle(value, static_cast<ushort>((__lane() + width - delta % width) % width)); \
  }
MPS_SIMULATOR_GROUP(simd, __lanes)
MPS_SIMULATOR_GROUP(quad, 4)
#undef MPS_SIMULATOR_GROUP
#undef MPS_SIMULATOR_OF_EACH

struct simd_vote {
  typedef ulong vote_t;
  vote_t __mask;

  constexpr explicit simd_vote(vote_t mask = 0) : __mask(mask) {}
  constexpr explicit operator vote_t() const {
    return __mask;
  }
  constexpr bool all() const {
    return __mask == 0xffffffffull;
  }
  constexpr bool any() const {
    return __mask != 0;
  }
};
MPS_SIMULATOR_COLLECTIVE simd_vote simd_ballot(bool value) {
  struct Gather {
    ulong operator()(const bool* values, const bool* present, uint) const {
      ulong mask = 0;
      for (uint i = 0; i < __lanes; ++i) {
        mask |= static_cast<ulong>(present[i] && values[i]) << i;
      }
      return mask;
    }
  };
  return simd_vote(__exchanged<ulong, Gather>(value));
}
MPS_SIMULATOR_COLLECTIVE simd_vote simd_active_threads_mask() {
  return simd_ballot(true);
}
MPS_SIMULATOR_COLLECTIVE bool simd_is_first() {
  const ulong mask = static_cast<ulong>(simd_ballot(true));
  return static_cast<uint>(__builtin_ctzl(mask)) == __lane();
}
template <class T>
MPS_SIMULATOR_COLLECTIVE T simd_broadcast_first(T value) {
  struct First {
    T operator()(const T* values, const bool* present, uint) const {
      uint i = 0;
      while (!present[i]) {
        ++i;
      }
      return values[i];
    }
  };
  return __exchanged<T, First>(value);
}

// 8x8 matrices, two elements a lane.
template <class T, int columns, int rows>
struct simdgroup_matrix {
  static_assert(columns == 8 && rows == 8, "SIMD-group matrices are 8x8");
  vec<T, 2> __elements;

  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal);
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

// The place of a lane's first element; the second is in the next column.
constexpr uint __matrix_row(uint lane) {
  return ((lane / 4) & 4) + (lane / 2) % 4;
}
constexpr uint __matrix_column(uint lane) {
  return ((lane / 4) & 2) * 2 + (lane % 2) * 2;
}

template <class T, int columns, int rows = columns>
inline simdgroup_matrix<T, columns, rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, columns, rows> result;
  result.__elements = vec<T, 2>(value);
  return result;
}
template <class T, int columns, int rows>
inline simdgroup_matrix<T, columns, rows>::simdgroup_matrix(T diagonal) {
  const uint lane = __lane();
  for (uint i = 0; i < 2; ++i) {
    __elements[i] = __matrix_row(lane) == __matrix_column(lane) + i ? diagonal : T(0);
  }
}
template <class T, int columns, int rows = columns>
inline simdgroup_matrix<T, columns, rows> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, columns, rows>(value);
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
  static void load(void** slots) {
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (auto* slot = static_cast<__matrix_transfer*>(slots[lane])) {
        for (uint i = 0; i < 2; ++i) {
          slot->matrix->__elements[i] = static_cast<T>(*slot->place(__matrix_row(lane), __matrix_column(lane) + i));
        }
      }
    }
  }
  static void store(void** slots) {
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (auto* slot = static_cast<__matrix_transfer*>(slots[lane])) {
        for (uint i = 0; i < 2; ++i) {
          *slot->place(__matrix_row(lane), __matrix_column(lane) + i) = slot->matrix->__elements[i];
        }
      }
    }
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
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_transfer<T, const T*>::load);
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
  __arrive(mps_simulator_shader_abi::Scope::simdgroup, &slot, &__matrix_transfer<T, T*>::store);
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
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (auto* slot = static_cast<__matrix_product*>(slots[lane])) {
        for (uint i = 0; i < 2; ++i) {
          const uint row = __matrix_row(lane);
          const uint column = __matrix_column(lane) + i;
          a[row][column] = static_cast<float>(slot->a->__elements[i]);
          b[row][column] = static_cast<float>(slot->b->__elements[i]);
          d[row][column] = slot->c ? static_cast<float>(slot->c->__elements[i]) : 0.0f;
        }
      }
    }
    for (uint row = 0; row < 8; ++row) {
      for (uint k = 0; k < 8; ++k) {
        for (uint column = 0; column < 8; ++column) {
          d[row][column] += a[row][k] * b[k][column];
        }
      }
    }
    for (uint lane = 0; lane < __lanes; ++lane) {
      if (auto* slot = static_cast<__matrix_product*>(slots[lane])) {
        for (uint i = 0; i < 2; ++i) {
          slot->result->__elements[i] = static_cast<D>(d[__matrix_row(lane)][__matrix_column(lane) + i]);
        }
      }
    }
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
