// The math, common, integer and relational functions. All are templates: a
// function of the user's with exactly matching parameters then wins, as some
// kernels of PyTorch's expect.
#pragma once
#include "vectors.h"

namespace metal {

template <class T>
using __if_scalar = enable_if_t<__is_scalar_type<T>>;

// Floating-point functions of integers are computed in float.
template <class T>
using __float_of = conditional_t<__is_floating<T>, T, float>;
template <class A, class B>
using __float_common = conditional_t<
    __is_floating<A> && __is_floating<B>,
    __common<__float_of<A>, __float_of<B>>,
    conditional_t<__is_floating<A>, __float_of<A>, __float_of<B>>>;
template <class A, class B>
using __value_common = conditional_t<__is_floating<A> || __is_floating<B>, __float_common<A, B>, __common<A, B>>;

#define MPS_SIMULATOR_UNARY(name, expression)                                   \
  template <class T, class = __if_scalar<T>>                                    \
  constexpr __float_of<T> name(T argument) {                                    \
    const float x = static_cast<float>(argument);                               \
    return static_cast<__float_of<T>>(expression);                              \
  }                                                                             \
  template <class T, int n>                                                     \
  constexpr auto name(vec<T, n> argument) {                                     \
    return __map([](T component) { return metal::name(component); }, argument); \
  }

#define MPS_SIMULATOR_VECTOR_BINARY(name)                                      \
  template <class T, int n>                                                    \
  constexpr auto name(vec<T, n> a, __identity<vec<T, n>> b) {                  \
    return __map([](T p, T q) { return metal::name(p, q); }, a, b);            \
  }                                                                            \
  template <class S, class T, int n, class = __if_scalar<S>>                   \
  constexpr auto name(S a, vec<T, n> b) {                                      \
    return __map([](T p, T q) { return metal::name(p, q); }, vec<T, n>(a), b); \
  }
#define MPS_SIMULATOR_BINARY(name, expression)                                \
  template <class A, class B, class = __if_scalar<A>, class = __if_scalar<B>> \
  constexpr __float_common<A, B> name(A first, B second) {                    \
    const float x = static_cast<float>(first);                                \
    const float y = static_cast<float>(second);                               \
    return static_cast<__float_common<A, B>>(expression);                     \
  }                                                                           \
  MPS_SIMULATOR_VECTOR_BINARY(name)

#define MPS_SIMULATOR_VECTOR_TERNARY(name)                                             \
  template <class T, int n>                                                            \
  constexpr auto name(vec<T, n> a, __identity<vec<T, n>> b, __identity<vec<T, n>> c) { \
    return __map([](T p, T q, T r) { return metal::name(p, q, r); }, a, b, c);         \
  }
#define MPS_SIMULATOR_TERNARY(name, expression)                                                                \
  template <class A, class B, class C, class = __if_scalar<A>, class = __if_scalar<B>, class = __if_scalar<C>> \
  constexpr __float_common<__float_common<A, B>, __float_of<C>> name(A first, B second, C third) {             \
    const float x = static_cast<float>(first);                                                                 \
    const float y = static_cast<float>(second);                                                                \
    const float z = static_cast<float>(third);                                                                 \
    return static_cast<__float_common<__float_common<A, B>, __float_of<C>>>(expression);                       \
  }                                                                                                            \
  MPS_SIMULATOR_VECTOR_TERNARY(name)

constexpr float __pi = 3.14159265358979323846f;

inline float __sinpi(float x) {
  // Reduced first: the rounding of pi * x would lose the argument's precision.
  const float r = x - 2.0f * __builtin_rintf(x * 0.5f);
  // Of whole numbers exactly zero, which pi as a double would miss.
  if (r == __builtin_rintf(r)) {
    return __builtin_copysignf(0.0f, x);
  }
  return static_cast<float>(__builtin_sin(static_cast<double>(r) * static_cast<double>(3.14159265358979323846L)));
}
inline float __cospi(float x) {
  const float r = x - 2.0f * __builtin_rintf(x * 0.5f);
  if (__builtin_fabsf(r) == 0.5f) {
    return 0.0f;
  }
  return static_cast<float>(__builtin_cos(static_cast<double>(r) * static_cast<double>(3.14159265358979323846L)));
}
inline float __fract(float x) {
  const float result = x - __builtin_floorf(x);
  return result < 1.0f ? result : 0x1.fffffep-1f;
}
// Without branches and calls that keep loops from being vectorized.
inline float __tanh(float x) {
  const float a = __builtin_fabsf(x);
  const float far = 1.0f - 2.0f / (__builtin_expf(2.0f * a) + 1.0f);
  const float z = a * a;
  const float series =
      (((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z + 1.33314422036e-1f) * z -
      3.33332819422e-1f;
  const float near = a + a * z * series;
  return __builtin_copysignf(a < 0.625f ? near : far, x);
}
constexpr float __sign(float x) {
  return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f;
}
MPS_SIMULATOR_UNARY(acos, __builtin_acosf(x))
MPS_SIMULATOR_UNARY(acosh, __builtin_acoshf(x))
MPS_SIMULATOR_UNARY(asin, __builtin_asinf(x))
MPS_SIMULATOR_UNARY(asinh, __builtin_asinhf(x))
MPS_SIMULATOR_UNARY(atan, __builtin_atanf(x))
MPS_SIMULATOR_UNARY(atanh, __builtin_atanhf(x))
MPS_SIMULATOR_UNARY(ceil, __builtin_ceilf(x))
MPS_SIMULATOR_UNARY(cos, __builtin_cosf(x))
MPS_SIMULATOR_UNARY(cosh, __builtin_coshf(x))
MPS_SIMULATOR_UNARY(exp, __builtin_expf(x))
MPS_SIMULATOR_UNARY(exp2, __builtin_exp2f(x))
MPS_SIMULATOR_UNARY(fabs, __builtin_fabsf(x))
MPS_SIMULATOR_UNARY(floor, __builtin_floorf(x))
MPS_SIMULATOR_UNARY(fract, __fract(x))
MPS_SIMULATOR_UNARY(log, __builtin_logf(x))
MPS_SIMULATOR_UNARY(log2, __builtin_log2f(x))
MPS_SIMULATOR_UNARY(log10, __builtin_log10f(x))
MPS_SIMULATOR_UNARY(rint, __builtin_rintf(x))
MPS_SIMULATOR_UNARY(round, __builtin_roundf(x))
MPS_SIMULATOR_UNARY(rsqrt, 1.0f / __builtin_sqrtf(x))
MPS_SIMULATOR_UNARY(sign, __sign(x))
MPS_SIMULATOR_UNARY(sin, __builtin_sinf(x))
MPS_SIMULATOR_UNARY(sinh, __builtin_sinhf(x))
MPS_SIMULATOR_UNARY(sinpi, __sinpi(x))
MPS_SIMULATOR_UNARY(sqrt, __builtin_sqrtf(x))
MPS_SIMULATOR_UNARY(tan, __builtin_tanf(x))
MPS_SIMULATOR_UNARY(tanh, __tanh(x))
MPS_SIMULATOR_UNARY(tanpi, __sinpi(x) / __cospi(x))
MPS_SIMULATOR_UNARY(trunc, __builtin_truncf(x))

MPS_SIMULATOR_BINARY(atan2, __builtin_atan2f(x, y))
MPS_SIMULATOR_BINARY(copysign, __builtin_copysignf(x, y))
MPS_SIMULATOR_BINARY(fmax, __builtin_fmaxf(x, y))
MPS_SIMULATOR_BINARY(fmin, __builtin_fminf(x, y))
MPS_SIMULATOR_BINARY(fmod, __builtin_fmodf(x, y))
MPS_SIMULATOR_BINARY(pow, __builtin_powf(x, y))
MPS_SIMULATOR_BINARY(step, y < x ? 0.0f : 1.0f)

MPS_SIMULATOR_TERNARY(fma, __builtin_fmaf(x, y, z))
MPS_SIMULATOR_TERNARY(mix, x + (y - x) * z)

// One step from `from` towards `to` in the bits of the type itself.
template <class T, class Bits>
constexpr T __next_after(T from, T to) {
  const float a = static_cast<float>(from);
  const float b = static_cast<float>(to);
  if (a != a || b != b) {
    return numeric_limits<T>::quiet_NaN();
  }
  if (a == b) {
    return to;
  }
  if (a == 0.0f) {
    const T smallest = __builtin_bit_cast(T, static_cast<Bits>(1));
    return b > 0.0f ? smallest : static_cast<T>(-smallest);
  }
  const Bits bits = __builtin_bit_cast(Bits, from);
  return __builtin_bit_cast(T, static_cast<Bits>((a > 0.0f) == (b > a) ? bits + 1 : bits - 1));
}
template <class A, class B, class = __if_scalar<A>, class = __if_scalar<B>>
constexpr __float_common<A, B> nextafter(A from, B to) {
  using T = __float_common<A, B>;
  using Bits = conditional_t<sizeof(T) == 2, ushort, uint>;
  return __next_after<T, Bits>(static_cast<T>(from), static_cast<T>(to));
}
MPS_SIMULATOR_VECTOR_BINARY(nextafter)

template <class T, class = __if_scalar<T>>
constexpr T abs(T x) {
  if constexpr (__is_floating<T>) {
    return metal::fabs(x);
  } else {
    return static_cast<T>(x < T(0) ? -x : x);
  }
}
template <class T, int n>
constexpr vec<T, n> abs(vec<T, n> x) {
  return __map([](T component) { return metal::abs(component); }, x);
}

template <class A, class B, class = __if_scalar<A>, class = __if_scalar<B>>
constexpr __value_common<A, B> max(A a, B b) {
  using T = __value_common<A, B>;
  if constexpr (__is_floating<T>) {
    return static_cast<T>(__builtin_fmaxf(static_cast<float>(a), static_cast<float>(b)));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
template <class A, class B, class = __if_scalar<A>, class = __if_scalar<B>>
constexpr __value_common<A, B> min(A a, B b) {
  using T = __value_common<A, B>;
  if constexpr (__is_floating<T>) {
    return static_cast<T>(__builtin_fminf(static_cast<float>(a), static_cast<float>(b)));
  } else {
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
MPS_SIMULATOR_VECTOR_BINARY(max)
MPS_SIMULATOR_VECTOR_BINARY(min)

template <class A, class B, class C, class = __if_scalar<A>, class = __if_scalar<B>, class = __if_scalar<C>>
constexpr auto clamp(A value, B low, C high) {
  return metal::min(metal::max(value, low), high);
}
MPS_SIMULATOR_VECTOR_TERNARY(clamp)

#define MPS_SIMULATOR_TEST(name, expression)                                    \
  template <class T, class = __if_scalar<T>>                                    \
  constexpr bool name(T argument) {                                             \
    const float x = static_cast<float>(argument);                               \
    return expression;                                                          \
  }                                                                             \
  template <class T, int n>                                                     \
  constexpr vec<bool, n> name(vec<T, n> argument) {                             \
    return __map([](T component) { return metal::name(component); }, argument); \
  }
MPS_SIMULATOR_TEST(isnan, x != x)
MPS_SIMULATOR_TEST(isinf, __builtin_fabsf(x) == __builtin_huge_valf())
MPS_SIMULATOR_TEST(isfinite, __builtin_fabsf(x) < __builtin_huge_valf())
MPS_SIMULATOR_TEST(signbit, (__builtin_bit_cast(uint, x) >> 31) != 0)

constexpr bool all(bool value) {
  return value;
}
constexpr bool any(bool value) {
  return value;
}
template <int n>
constexpr bool all(vec<bool, n> values) {
  for (int i = 0; i < n; ++i) {
    if (!values[i]) {
      return false;
    }
  }
  return true;
}
template <int n>
constexpr bool any(vec<bool, n> values) {
  return !metal::all(!values);
}
template <class A, class B, class = __if_scalar<A>, class = __if_scalar<B>>
constexpr __value_common<A, B> select(A a, B b, bool condition) {
  return condition ? static_cast<__value_common<A, B>>(b) : static_cast<__value_common<A, B>>(a);
}
template <class T, int n, class C>
constexpr vec<T, n> select(vec<T, n> a, __identity<vec<T, n>> b, vec<C, n> condition) {
  return __map([](T p, T q, C c) { return c ? q : p; }, a, b, condition);
}
template <class T, int n>
constexpr vec<T, n> select(vec<T, n> a, __identity<vec<T, n>> b, bool condition) {
  return condition ? b : a;
}

// Geometry.
template <class T, int n>
constexpr T length(vec<T, n> a) {
  return metal::sqrt(metal::dot(a, a));
}
template <class T, class = enable_if_t<__is_floating<T>>>
constexpr vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
  return vec<T, 3>(T(a.y * b.z - a.z * b.y), T(a.z * b.x - a.x * b.z), T(a.x * b.y - a.y * b.x));
}

#undef MPS_SIMULATOR_UNARY
#undef MPS_SIMULATOR_BINARY
#undef MPS_SIMULATOR_TERNARY
#undef MPS_SIMULATOR_VECTOR_BINARY
#undef MPS_SIMULATOR_VECTOR_TERNARY
#undef MPS_SIMULATOR_TEST

#define MPS_SIMULATOR_VARIANTS                                                                                     \
  using metal::abs, metal::acos, metal::acosh, metal::asin, metal::asinh, metal::atan, metal::atan2, metal::atanh, \
      metal::ceil, metal::clamp, metal::copysign, metal::cos, metal::cosh, metal::exp, metal::exp2, metal::fabs,   \
      metal::floor, metal::fma, metal::fmax, metal::fmin, metal::fmod, metal::fract, metal::log, metal::log10,     \
      metal::log2, metal::max, metal::min, metal::mix, metal::nextafter, metal::pow, metal::rint, metal::round,    \
      metal::rsqrt, metal::sign, metal::sin, metal::sinh, metal::sinpi, metal::sqrt, metal::step, metal::tan,      \
      metal::tanh, metal::tanpi, metal::trunc, metal::isnan, metal::isinf, metal::isfinite, metal::length;
namespace precise {
MPS_SIMULATOR_VARIANTS
}
namespace fast {
MPS_SIMULATOR_VARIANTS
}
#undef MPS_SIMULATOR_VARIANTS

} // namespace metal
