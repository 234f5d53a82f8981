// Vectors with swizzles, packed vectors and matrices.
#pragma once
#include "scalars.h"

namespace metal {

// The element type under which the compiler gives a vector its alignment: there
// are no built-in vectors of bool (they would be bit masks) or of classes.
template <class T>
struct __layout_element : type_identity<T> {};
template <>
struct __layout_element<bool> : type_identity<unsigned char> {};
template <>
struct __layout_element<bfloat> : type_identity<unsigned short> {};

template <class T, int n>
struct __layout {
  typedef typename __layout_element<T>::type type __attribute__((ext_vector_type(n)));
};

template <class T, int n>
struct __packed_layout : type_identity<T[n]> {};

template <class T, int n>
struct vec;
template <class T, int n>
struct packed_vec;

template <class T>
struct __components : integral_constant<int, __is_scalar_type<T> ? 1 : 0> {};
template <class T, int n>
struct __components<vec<T, n>> : integral_constant<int, n> {};
template <class T, int n>
struct __components<packed_vec<T, n>> : integral_constant<int, n> {};
template <class T>
constexpr int __component_count = __components<remove_cvref_t<T>>::value;

// Writes the components of one constructor argument and returns the next place.
template <class T, class A>
constexpr int __spread(T* to, int at, const A& argument) {
  if constexpr (__component_count<A> == 1) {
    to[at++] = static_cast<T>(argument);
  } else {
    for (int i = 0; i < __component_count<A>; ++i) {
      to[at++] = static_cast<T>(argument[i]);
    }
  }
  return at;
}

template <class T>
constexpr T __shift_left(T a, T b) {
  return static_cast<T>(a << (b & static_cast<T>(sizeof(T) * 8 - 1)));
}
template <class T>
constexpr T __shift_right(T a, T b) {
  return static_cast<T>(a >> (b & static_cast<T>(sizeof(T) * 8 - 1)));
}

#define MPS_SIMULATOR_VECTOR_UNARY(R, op)              \
  friend constexpr vec<R, n> operator op(vec<T, n> a) { \
    vec<R, n> result{};                                \
    for (int i = 0; i < n; ++i) {                      \
      result.__data[i] = static_cast<R>(op a[i]);      \
    }                                                  \
    return result;                                     \
  }
#define MPS_SIMULATOR_VECTOR_BINARY(R, op, expression)               \
  friend constexpr vec<R, n> operator op(vec<T, n> a, vec<T, n> b) { \
    vec<R, n> result{};                                              \
    for (int i = 0; i < n; ++i) {                                    \
      result.__data[i] = static_cast<R>(expression);                 \
    }                                                                \
    return result;                                                   \
  }
#define MPS_SIMULATOR_VECTOR_OPERATOR(op) MPS_SIMULATOR_VECTOR_BINARY(T, op, a[i] op b[i])
#define MPS_SIMULATOR_VECTOR_COMPARISON(op) MPS_SIMULATOR_VECTOR_BINARY(bool, op, a[i] op b[i])

// Found through the arguments, so that scalars and packed vectors convert.
template <class T, int n>
struct __vector_operators {
  MPS_SIMULATOR_VECTOR_OPERATOR(+)
  MPS_SIMULATOR_VECTOR_OPERATOR(-)
  MPS_SIMULATOR_VECTOR_OPERATOR(*)
  MPS_SIMULATOR_VECTOR_OPERATOR(/)
  MPS_SIMULATOR_VECTOR_OPERATOR(%)
  MPS_SIMULATOR_VECTOR_OPERATOR(&)
  MPS_SIMULATOR_VECTOR_OPERATOR(|)
  MPS_SIMULATOR_VECTOR_OPERATOR(^)
  MPS_SIMULATOR_VECTOR_BINARY(T, <<, __shift_left(a[i], b[i]))
  MPS_SIMULATOR_VECTOR_BINARY(T, >>, __shift_right(a[i], b[i]))
  MPS_SIMULATOR_VECTOR_COMPARISON(==)
  MPS_SIMULATOR_VECTOR_COMPARISON(!=)
  MPS_SIMULATOR_VECTOR_COMPARISON(<)
  MPS_SIMULATOR_VECTOR_COMPARISON(<=)
  MPS_SIMULATOR_VECTOR_COMPARISON(>)
  MPS_SIMULATOR_VECTOR_COMPARISON(>=)
  MPS_SIMULATOR_VECTOR_COMPARISON(&&)
  MPS_SIMULATOR_VECTOR_COMPARISON(||)
  MPS_SIMULATOR_VECTOR_UNARY(T, -)
  MPS_SIMULATOR_VECTOR_UNARY(T, +)
  MPS_SIMULATOR_VECTOR_UNARY(T, ~)
  MPS_SIMULATOR_VECTOR_UNARY(bool, !)
};
#undef MPS_SIMULATOR_VECTOR_UNARY
#undef MPS_SIMULATOR_VECTOR_BINARY
#undef MPS_SIMULATOR_VECTOR_OPERATOR
#undef MPS_SIMULATOR_VECTOR_COMPARISON

#define MPS_SIMULATOR_COMPOUND(name, op)               \
  constexpr name& operator op##=(vec<T, size> other) { \
    return *this = name(vec<T, size>(*this) op other); \
  }

// Construction, indexing and assignment, the same for every length. A
// constructor takes any mix of scalars and vectors with enough components.
#define MPS_SIMULATOR_VECTOR_MEMBERS(name, n)                                               \
  using element_type = T;                                                                   \
  static constexpr int size = n;                                                            \
  name() = default;                                                                         \
  template <class A, class = enable_if_t<__is_scalar_type<A>>>                              \
  constexpr name(A value) : __data{} {                                                      \
    for (int i = 0; i < n; ++i) {                                                           \
      __data[i] = static_cast<T>(value);                                                    \
    }                                                                                       \
  }                                                                                         \
  template <                                                                                \
      class A,                                                                              \
      class B,                                                                              \
      class... C,                                                                           \
      class = enable_if_t<                                                                  \
          (__component_count<A> > 0) && (__component_count<B> > 0) &&                       \
          ((__component_count<A> + __component_count<B>)+... + __component_count<C>) == n>> \
  constexpr name(const A& a, const B& b, const C&... c) : __data{} {                        \
    int at = __spread(__data, 0, a);                                                        \
    at = __spread(__data, at, b);                                                           \
    ((at = __spread(__data, at, c)), ...);                                                  \
  }                                                                                         \
  template <class U, class = enable_if_t<!is_same_v<U, T>>>                                 \
  constexpr explicit name(const vec<U, n>& other) : __data{} {                              \
    __spread(__data, 0, other);                                                             \
  }                                                                                         \
  template <class U, class = enable_if_t<!is_same_v<U, T>>>                                 \
  constexpr explicit name(const packed_vec<U, n>& other) : __data{} {                       \
    __spread(__data, 0, other);                                                             \
  }                                                                                         \
  constexpr T& operator[](size_t i) {                                                       \
    return __data[i];                                                                       \
  }                                                                                         \
  constexpr const T& operator[](size_t i) const {                                           \
    return __data[i];                                                                       \
  }                                                                                         \
  MPS_SIMULATOR_COMPOUND(name, +)                                                           \
  MPS_SIMULATOR_COMPOUND(name, -)                                                           \
  MPS_SIMULATOR_COMPOUND(name, *)                                                           \
  MPS_SIMULATOR_COMPOUND(name, /)                                                           \
  MPS_SIMULATOR_COMPOUND(name, %)                                                           \
  MPS_SIMULATOR_COMPOUND(name, &)                                                           \
  MPS_SIMULATOR_COMPOUND(name, |)                                                           \
  MPS_SIMULATOR_COMPOUND(name, ^)                                                           \
  MPS_SIMULATOR_COMPOUND(name, <<)                                                          \
  MPS_SIMULATOR_COMPOUND(name, >>)                                                          \
  MPS_SIMULATOR_STEP(name, ++, name(vec<T, size>(*this) + T(1)))                            \
  MPS_SIMULATOR_STEP(name, --, name(vec<T, size>(*this) - T(1)))

#define MPS_SIMULATOR_VECTOR_OF(name, other, n, fields, swizzles, layout) \
  template <class T>                                                      \
  struct name<T, n> : __vector_operators<T, n> {                          \
    union {                                                               \
      T __data[n];                                                        \
      struct {                                                            \
        T fields;                                                         \
      };                                                                  \
      typename layout<T, n>::type __aligned;                              \
    };                                                                    \
    MPS_SIMULATOR_VECTOR_MEMBERS(name, n)                                 \
    constexpr name(const other<T, n>& value) : __data{} {                 \
      __spread(__data, 0, value);                                         \
    }                                                                     \
    swizzles                                                              \
  };
#define MPS_SIMULATOR_VECTOR(n, fields, swizzles)                                                                 \
  MPS_SIMULATOR_VECTOR_OF(vec, packed_vec, n, MPS_SIMULATOR_LIST(fields), MPS_SIMULATOR_LIST(swizzles), __layout) \
  MPS_SIMULATOR_VECTOR_OF(packed_vec, vec, n, MPS_SIMULATOR_LIST(fields), MPS_SIMULATOR_LIST(swizzles), __packed_layout)

#define MPS_SIMULATOR_LIST(...) __VA_ARGS__
// Generated by swizzles.py: MPS_SIMULATOR_SWIZZLES_2, _3 and _4.
#include "swizzles.inc"
MPS_SIMULATOR_VECTOR(2, MPS_SIMULATOR_LIST(x, y), MPS_SIMULATOR_SWIZZLES_2)
MPS_SIMULATOR_VECTOR(3, MPS_SIMULATOR_LIST(x, y, z), MPS_SIMULATOR_SWIZZLES_3)
MPS_SIMULATOR_VECTOR(4, MPS_SIMULATOR_LIST(x, y, z, w), MPS_SIMULATOR_SWIZZLES_4)
#undef MPS_SIMULATOR_VECTOR
#undef MPS_SIMULATOR_VECTOR_OF
#undef MPS_SIMULATOR_VECTOR_MEMBERS
#undef MPS_SIMULATOR_COMPOUND
#undef MPS_SIMULATOR_STEP
#undef MPS_SIMULATOR_LIST

template <class F, int n, class... T>
constexpr auto __map(F function, vec<T, n>... vectors) {
  vec<remove_cvref_t<decltype(function(vectors[0]...))>, n> result{};
  for (int i = 0; i < n; ++i) {
    result.__data[i] = function(vectors.__data[i]...);
  }
  return result;
}

template <class T, int n>
constexpr T dot(vec<T, n> a, vec<T, n> b) {
  T sum = static_cast<T>(a.__data[0] * b.__data[0]);
  for (int i = 1; i < n; ++i) {
    sum = static_cast<T>(sum + a.__data[i] * b.__data[i]);
  }
  return sum;
}

// Column-major: `columns` vectors of `rows` components.
template <class T, int columns, int rows>
struct matrix {
  vec<T, rows> columns_[columns];

  matrix() = default;
  template <class A, class = enable_if_t<__is_scalar_type<A>>>
  constexpr explicit matrix(A diagonal) : columns_{} {
    for (int i = 0; i < columns && i < rows; ++i) {
      columns_[i][i] = static_cast<T>(diagonal);
    }
  }
  template <class U, class = enable_if_t<!is_same_v<U, T>>>
  constexpr explicit matrix(const matrix<U, columns, rows>& other) : columns_{} {
    for (int i = 0; i < columns; ++i) {
      columns_[i] = vec<T, rows>(other[i]);
    }
  }
  constexpr vec<T, rows>& operator[](size_t i) {
    return columns_[i];
  }
  constexpr const vec<T, rows>& operator[](size_t i) const {
    return columns_[i];
  }
  friend constexpr vec<T, columns> operator*(vec<T, rows> a, const matrix& b) {
    vec<T, columns> result{};
    for (int i = 0; i < columns; ++i) {
      result[i] = dot(a, b[i]);
    }
    return result;
  }
};

} // namespace metal

#define MPS_SIMULATOR_VECTOR_NAMES(type)               \
  typedef metal::vec<type, 2> type##2;                 \
  typedef metal::vec<type, 3> type##3;                 \
  typedef metal::vec<type, 4> type##4;                 \
  typedef metal::packed_vec<type, 2> packed_##type##2; \
  typedef metal::packed_vec<type, 3> packed_##type##3; \
  typedef metal::packed_vec<type, 4> packed_##type##4;
MPS_SIMULATOR_VECTOR_NAMES(bool)
MPS_SIMULATOR_VECTOR_NAMES(char)
MPS_SIMULATOR_VECTOR_NAMES(uchar)
MPS_SIMULATOR_VECTOR_NAMES(short)
MPS_SIMULATOR_VECTOR_NAMES(ushort)
MPS_SIMULATOR_VECTOR_NAMES(int)
MPS_SIMULATOR_VECTOR_NAMES(uint)
MPS_SIMULATOR_VECTOR_NAMES(long)
MPS_SIMULATOR_VECTOR_NAMES(ulong)
MPS_SIMULATOR_VECTOR_NAMES(half)
MPS_SIMULATOR_VECTOR_NAMES(bfloat)
MPS_SIMULATOR_VECTOR_NAMES(float)
#undef MPS_SIMULATOR_VECTOR_NAMES

typedef metal::matrix<float, 2, 2> float2x2;
typedef metal::matrix<float, 2, 4> float2x4;
typedef metal::matrix<float, 3, 3> float3x3;
typedef metal::matrix<float, 4, 4> float4x4;
