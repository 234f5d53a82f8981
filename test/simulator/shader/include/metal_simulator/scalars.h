// Scalar types of the Metal Shading Language and the type traits over them.
// Kernels may be called `exp` or `fmax`, so no C or C++ library header is
// included anywhere in this directory.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef _Float16 half;

struct bfloat;

namespace metal {

template <class T, T value_>
struct integral_constant {
  static constexpr T value = value_;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const {
    return value_;
  }
  constexpr T operator()() const {
    return value_;
  }
};
template <bool value>
using bool_constant = integral_constant<bool, value>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool condition, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool condition, class T = void>
using enable_if_t = typename enable_if<condition, T>::type;

template <bool condition, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool condition, class A, class B>
using conditional_t = typename conditional<condition, A, B>::type;

template <class...>
using void_t = void;

template <class T>
struct type_identity {
  using type = T;
};
template <class T>
using __identity = typename type_identity<T>::type;

#define MPS_SIMULATOR_TYPE(name, ...) \
  template <class T>                  \
  struct name {                       \
    using type = __VA_ARGS__;         \
  };                                  \
  template <class T>                  \
  using name##_t = typename name<T>::type;
MPS_SIMULATOR_TYPE(remove_const, __remove_const(T))
MPS_SIMULATOR_TYPE(remove_volatile, __remove_volatile(T))
MPS_SIMULATOR_TYPE(remove_cv, __remove_cv(T))
MPS_SIMULATOR_TYPE(remove_reference, __remove_reference_t(T))
MPS_SIMULATOR_TYPE(remove_pointer, __remove_pointer(T))
MPS_SIMULATOR_TYPE(remove_cvref, __remove_cvref(T))
MPS_SIMULATOR_TYPE(decay, __decay(T))
#undef MPS_SIMULATOR_TYPE
template <class T>
remove_reference_t<T>&& declval();
template <class T>
constexpr remove_reference_t<T>&& move(T&& value) {
  return static_cast<remove_reference_t<T>&&>(value);
}
template <class T>
constexpr T&& forward(remove_reference_t<T>& value) {
  return static_cast<T&&>(value);
}

template <class A, class B>
constexpr bool is_same_v = __is_same(A, B);
template <class A, class B>
struct is_same : bool_constant<is_same_v<A, B>> {};

template <class T, class... Options>
constexpr bool __is_one_of = (is_same_v<T, Options> || ...);
template <class T>
constexpr bool __is_floating = __is_one_of<remove_cv_t<T>, float, half, bfloat>;
template <class T>
constexpr bool __is_integer = __is_integral(T);
template <class T>
constexpr bool __is_scalar_type = __is_integer<T> || __is_floating<T>;

#define MPS_SIMULATOR_TRAIT(name, ...)         \
  template <class T>                           \
  struct name : bool_constant<__VA_ARGS__> {}; \
  template <class T>                           \
  constexpr bool name##_v = name<T>::value;
MPS_SIMULATOR_TRAIT(is_floating_point, __is_floating<T>)
MPS_SIMULATOR_TRAIT(is_integral, __is_integer<T>)
MPS_SIMULATOR_TRAIT(is_arithmetic, __is_scalar_type<T>)
MPS_SIMULATOR_TRAIT(is_scalar, __is_scalar_type<T>)
MPS_SIMULATOR_TRAIT(is_signed, __is_floating<T> || __is_signed(T))
MPS_SIMULATOR_TRAIT(is_unsigned, __is_unsigned(T))
MPS_SIMULATOR_TRAIT(is_const, __is_const(T))
MPS_SIMULATOR_TRAIT(is_pointer, __is_pointer(T))
MPS_SIMULATOR_TRAIT(is_reference, __is_reference(T))
MPS_SIMULATOR_TRAIT(is_class, __is_class(T))
MPS_SIMULATOR_TRAIT(is_void, __is_void(T))
#undef MPS_SIMULATOR_TRAIT

} // namespace metal

template <class To, class From>
constexpr To as_type(const From& value) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
  return __builtin_bit_cast(To, value);
}

// Both forms of ++ or --, of a type that is constructed from `stepped`.
#define MPS_SIMULATOR_STEP(name, op, stepped) \
  constexpr name& operator op() {             \
    return *this = stepped;                   \
  }                                           \
  constexpr name operator op(int) {           \
    const name before = *this;                \
    op*this;                                  \
    return before;                            \
  }

// A type of its own rather than __bf16, whose conversions to and from _Float16
// clang refuses. Every operation goes through float and is rounded once.
struct bfloat {
  unsigned short __bits;

  bfloat() = default;
  template <class A, class = metal::enable_if_t<metal::__is_one_of<A, float, half> || metal::__is_integer<A>>>
  constexpr bfloat(A value) : __bits(__round(static_cast<float>(value))) {}

  constexpr operator float() const {
    return __builtin_bit_cast(float, static_cast<unsigned>(__bits) << 16);
  }
  static constexpr bfloat __from_bits(unsigned short bits) {
    return __builtin_bit_cast(bfloat, bits);
  }
  static constexpr unsigned short __round(float value) {
    const unsigned bits = __builtin_bit_cast(unsigned, value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<unsigned short>(0x7fc0);
    }
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  constexpr bfloat operator-() const {
    return __from_bits(static_cast<unsigned short>(__bits ^ 0x8000u));
  }
  constexpr bfloat operator+() const {
    return *this;
  }
  MPS_SIMULATOR_STEP(bfloat, ++, bfloat(float(*this) + 1))
  MPS_SIMULATOR_STEP(bfloat, --, bfloat(float(*this) - 1))
};

namespace metal {

// bfloat with bfloat or an integer stays bfloat; with float or half it is float.
template <class A, class B>
constexpr bool __is_bfloat_pair =
    __is_scalar_type<A> && __is_scalar_type<B> && (is_same_v<A, bfloat> || is_same_v<B, bfloat>);
template <class A, class B>
using __bfloat_result = enable_if_t<
    __is_bfloat_pair<A, B>,
    conditional_t<__is_one_of<A, float, half> || __is_one_of<B, float, half>, float, bfloat>>;
template <class A, class B>
using __bfloat_comparison = enable_if_t<__is_bfloat_pair<A, B>, bool>;

} // namespace metal

#define MPS_SIMULATOR_BFLOAT_OPERATOR(op)                                                                    \
  template <class A, class B>                                                                                \
  constexpr metal::__bfloat_result<A, B> operator op(A a, B b) {                                             \
    return metal::__bfloat_result<A, B>(static_cast<float>(a) op static_cast<float>(b));                     \
  }                                                                                                          \
  template <class B, class = metal::enable_if_t<metal::__is_scalar_type<B>>>                                 \
  inline bfloat& operator op##=(bfloat & a, B b) {                                                           \
    return a = bfloat(static_cast<float>(a) op static_cast<float>(b));                                       \
  }                                                                                                          \
  template <class A, class = metal::enable_if_t<metal::__is_scalar_type<A> && !metal::is_same_v<A, bfloat>>> \
  inline A& operator op##=(A & a, bfloat b) {                                                                \
    return a = static_cast<A>(static_cast<float>(a) op static_cast<float>(b));                               \
  }
MPS_SIMULATOR_BFLOAT_OPERATOR(+)
MPS_SIMULATOR_BFLOAT_OPERATOR(-)
MPS_SIMULATOR_BFLOAT_OPERATOR(*)
MPS_SIMULATOR_BFLOAT_OPERATOR(/)
#undef MPS_SIMULATOR_BFLOAT_OPERATOR

#define MPS_SIMULATOR_BFLOAT_COMPARISON(op)                          \
  template <class A, class B>                                        \
  constexpr metal::__bfloat_comparison<A, B> operator op(A a, B b) { \
    return static_cast<float>(a) op static_cast<float>(b);           \
  }
MPS_SIMULATOR_BFLOAT_COMPARISON(==)
MPS_SIMULATOR_BFLOAT_COMPARISON(!=)
MPS_SIMULATOR_BFLOAT_COMPARISON(<)
MPS_SIMULATOR_BFLOAT_COMPARISON(<=)
MPS_SIMULATOR_BFLOAT_COMPARISON(>)
MPS_SIMULATOR_BFLOAT_COMPARISON(>=)
#undef MPS_SIMULATOR_BFLOAT_COMPARISON

// Literal suffixes. clang reads h as one of the standard library's; the compiler
// driver writes bf as _b.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wuser-defined-literals"
constexpr half operator""h(long double value) {
  return static_cast<half>(value);
}
constexpr bfloat operator""_b(long double value) {
  return bfloat(static_cast<float>(value));
}
#pragma clang diagnostic pop

namespace metal {

// What two scalars are converted to before an operation. Small integers are not
// promoted: max(short, short) is a short.
template <class A, class B>
struct __common_scalar {
  using type = remove_cvref_t<decltype(declval<A>() + declval<B>())>;
};
template <class A>
struct __common_scalar<A, A> {
  using type = A;
};
template <class A, class B>
using __common = typename __common_scalar<remove_cvref_t<A>, remove_cvref_t<B>>::type;

template <class T>
struct numeric_limits {
  static constexpr int digits = is_same_v<T, bool> ? 1 : sizeof(T) * 8 - (__is_signed(T) ? 1 : 0);
  static constexpr T max() {
    return static_cast<T>(~0ul >> (64 - digits));
  }
  static constexpr T min() {
    return __is_signed(T) ? static_cast<T>(-max() - 1) : T(0);
  }
  static constexpr T lowest() {
    return min();
  }
};

template <class T, class Bits, int digits_, Bits smallest, Bits largest, Bits gap, Bits infinite, Bits not_a_number>
struct __floating_limits {
  static constexpr int digits = digits_;
  static constexpr T min() {
    return __builtin_bit_cast(T, smallest);
  }
  static constexpr T max() {
    return __builtin_bit_cast(T, largest);
  }
  static constexpr T lowest() {
    return -max();
  }
  static constexpr T epsilon() {
    return __builtin_bit_cast(T, gap);
  }
  static constexpr T infinity() {
    return __builtin_bit_cast(T, infinite);
  }
  static constexpr T quiet_NaN() {
    return __builtin_bit_cast(T, not_a_number);
  }
};
template <>
struct numeric_limits<float>
    : __floating_limits<float, uint, 24, 0x00800000u, 0x7f7fffffu, 0x34000000u, 0x7f800000u, 0x7fc00000u> {};
template <>
struct numeric_limits<half> : __floating_limits<half, ushort, 11, 0x0400, 0x7bff, 0x1400, 0x7c00, 0x7e00> {};
template <>
struct numeric_limits<bfloat> : __floating_limits<bfloat, ushort, 8, 0x0080, 0x7f7f, 0x3c00, 0x7f80, 0x7fc0> {};
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};

template <class T>
inline void swap(T& a, T& b) {
  T old = a;
  a = b;
  b = old;
}

template <class T, size_t n>
struct array {
  T __elements[n];

  constexpr T& operator[](size_t i) {
    return __elements[i];
  }
  constexpr const T& operator[](size_t i) const {
    return __elements[i];
  }
  constexpr size_t size() const {
    return n;
  }
};

} // namespace metal
