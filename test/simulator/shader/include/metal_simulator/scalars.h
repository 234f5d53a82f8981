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

template <class T>
struct remove_const : type_identity<T> {};
template <class T>
struct remove_const<const T> : type_identity<T> {};
template <class T>
struct remove_volatile : type_identity<T> {};
template <class T>
struct remove_volatile<volatile T> : type_identity<T> {};
template <class T>
struct remove_cv : remove_const<typename remove_volatile<T>::type> {};
template <class T>
struct remove_reference : type_identity<T> {};
template <class T>
struct remove_reference<T&> : type_identity<T> {};
template <class T>
struct remove_reference<T&&> : type_identity<T> {};
template <class T>
struct remove_pointer : type_identity<T> {};
template <class T>
struct remove_pointer<T*> : type_identity<T> {};
template <class T>
struct remove_pointer<T* const> : type_identity<T> {};
template <class T>
struct remove_extent : type_identity<T> {};
template <class T, size_t n>
struct remove_extent<T[n]> : type_identity<T> {};
template <class T>
struct remove_cvref : remove_cv<typename remove_reference<T>::type> {};
template <class T>
using remove_cvref_t = typename remove_cvref<T>::type;
template <class T>
struct decay : remove_cvref<T> {};
template <class T>
struct add_const : type_identity<const T> {};
template <class T>
struct add_pointer : type_identity<typename remove_reference<T>::type*> {};

#define MPS_SIMULATOR_TYPE(name) \
  template <class T>             \
  using name##_t = typename name<T>::type;
MPS_SIMULATOR_TYPE(remove_const)
MPS_SIMULATOR_TYPE(remove_volatile)
MPS_SIMULATOR_TYPE(remove_cv)
MPS_SIMULATOR_TYPE(remove_reference)
MPS_SIMULATOR_TYPE(remove_pointer)
MPS_SIMULATOR_TYPE(remove_extent)
MPS_SIMULATOR_TYPE(decay)
MPS_SIMULATOR_TYPE(add_const)
MPS_SIMULATOR_TYPE(add_pointer)
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
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class A, class B>
constexpr bool is_same_v = is_same<A, B>::value;

template <class T, class... Options>
constexpr bool __is_one_of = (is_same_v<T, Options> || ...);
template <class T>
constexpr bool __is_floating = __is_one_of<remove_cv_t<T>, float, half, bfloat>;
template <class T>
constexpr bool __is_integer = __is_integral(T);
template <class T>
constexpr bool __is_scalar_type = __is_integer<T> || __is_floating<T>;

#define MPS_SIMULATOR_TRAIT(name, ...) \
  template <class T>                   \
  struct name : bool_constant<__VA_ARGS__> {};
#define MPS_SIMULATOR_TRAIT_AND_VALUE(name, ...) \
  MPS_SIMULATOR_TRAIT(name, __VA_ARGS__)         \
  template <class T>                             \
  constexpr bool name##_v = name<T>::value;
MPS_SIMULATOR_TRAIT_AND_VALUE(is_floating_point, __is_floating<T>)
MPS_SIMULATOR_TRAIT_AND_VALUE(is_integral, __is_integer<T>)
MPS_SIMULATOR_TRAIT_AND_VALUE(is_arithmetic, __is_scalar_type<T>)
MPS_SIMULATOR_TRAIT_AND_VALUE(is_scalar, __is_scalar_type<T>)
MPS_SIMULATOR_TRAIT_AND_VALUE(is_signed, __is_floating<T> || __is_signed(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_unsigned, __is_unsigned(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_const, __is_const(T))
MPS_SIMULATOR_TRAIT(is_volatile, __is_volatile(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_pointer, __is_pointer(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_reference, __is_reference(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_array, __is_array(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_enum, __is_enum(T))
MPS_SIMULATOR_TRAIT(is_union, __is_union(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_class, __is_class(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_void, __is_void(T))
MPS_SIMULATOR_TRAIT_AND_VALUE(is_empty, __is_empty(T))
MPS_SIMULATOR_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
#undef MPS_SIMULATOR_TRAIT_AND_VALUE
#undef MPS_SIMULATOR_TRAIT
template <class From, class To>
struct is_convertible : bool_constant<__is_convertible(From, To)> {};
template <class Base, class Derived>
struct is_base_of : bool_constant<__is_base_of(Base, Derived)> {};
template <class T, class... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {};

template <class From, class To>
constexpr bool is_convertible_v = is_convertible<From, To>::value;
template <class Base, class Derived>
constexpr bool is_base_of_v = is_base_of<Base, Derived>::value;
template <class... Conditions>
struct conjunction : bool_constant<(bool(Conditions::value) && ...)> {};
template <class... Conditions>
struct disjunction : bool_constant<(bool(Conditions::value) || ...)> {};
template <class Condition>
struct negation : bool_constant<!bool(Condition::value)> {};
template <class... Conditions>
constexpr bool conjunction_v = conjunction<Conditions...>::value;
template <class... Conditions>
constexpr bool disjunction_v = disjunction<Conditions...>::value;
template <class Condition>
constexpr bool negation_v = negation<Condition>::value;

template <class T>
struct make_unsigned : type_identity<__make_unsigned(T)> {};
template <class T>
struct make_signed : type_identity<__make_signed(T)> {};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
using make_signed_t = typename make_signed<T>::type;
template <class T>
struct underlying_type : type_identity<__underlying_type(T)> {};
template <class T>
using underlying_type_t = typename underlying_type<T>::type;

} // namespace metal

template <class To, class From>
constexpr To as_type(const From& value) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
  return __builtin_bit_cast(To, value);
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
  bfloat& operator++() {
    return *this = bfloat(float(*this) + 1);
  }
  bfloat& operator--() {
    return *this = bfloat(float(*this) - 1);
  }
  bfloat operator++(int) {
    const bfloat before = *this;
    ++*this;
    return before;
  }
  bfloat operator--(int) {
    const bfloat before = *this;
    --*this;
    return before;
  }
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

struct __no_limits {
  static constexpr bool is_specialized = false;
};

template <class T>
struct __integer_limits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_integer = true;
  static constexpr bool is_exact = true;
  static constexpr bool is_signed = __is_signed(T);
  static constexpr bool is_bounded = true;
  static constexpr bool has_infinity = false;
  static constexpr bool has_quiet_NaN = false;
  static constexpr int radix = 2;
  static constexpr int digits = is_same_v<T, bool> ? 1 : sizeof(T) * 8 - (is_signed ? 1 : 0);
  static constexpr int digits10 = digits * 3 / 10;
  static constexpr T max() {
    return static_cast<T>(~0ul >> (64 - digits));
  }
  static constexpr T min() {
    return is_signed ? static_cast<T>(-max() - 1) : T(0);
  }
  static constexpr T lowest() {
    return min();
  }
  static constexpr T epsilon() {
    return 0;
  }
  static constexpr T infinity() {
    return 0;
  }
  static constexpr T quiet_NaN() {
    return 0;
  }
};

template <class T>
struct numeric_limits : conditional_t<__is_integer<T>, __integer_limits<remove_cv_t<T>>, __no_limits> {};

template <class T, class Bits, Bits one, Bits smallest, Bits largest, Bits gap, Bits infinite, Bits not_a_number>
struct __floating_limits {
  static constexpr bool is_specialized = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_signed = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_iec559 = true;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr int radix = 2;
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
  static constexpr T signaling_NaN() {
    return __builtin_bit_cast(T, not_a_number);
  }
  static constexpr T denorm_min() {
    return __builtin_bit_cast(T, Bits(1));
  }
};
template <>
struct numeric_limits<float>
    : __floating_limits<float, uint, 0x3f800000u, 0x00800000u, 0x7f7fffffu, 0x34000000u, 0x7f800000u, 0x7fc00000u> {
  static constexpr int digits = 24;
  static constexpr int digits10 = 6;
};
template <>
struct numeric_limits<half> : __floating_limits<half, ushort, 0x3c00, 0x0400, 0x7bff, 0x1400, 0x7c00, 0x7e00> {
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
};
template <>
struct numeric_limits<bfloat> : __floating_limits<bfloat, ushort, 0x3f80, 0x0080, 0x7f7f, 0x3c00, 0x7f80, 0x7fc0> {
  static constexpr int digits = 8;
  static constexpr int digits10 = 2;
};
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};

template <class T>
inline void swap(T& a, T& b) {
  T old = a;
  a = b;
  b = old;
}

template <class A, class B>
struct pair {
  A first;
  B second;
};

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
  constexpr T* data() {
    return __elements;
  }
  constexpr const T* data() const {
    return __elements;
  }
  constexpr T* begin() {
    return __elements;
  }
  constexpr const T* begin() const {
    return __elements;
  }
  constexpr T* end() {
    return __elements + n;
  }
  constexpr const T* end() const {
    return __elements + n;
  }
};

} // namespace metal
