#include "foundation/copying.h"
#include "foundation/string.h"

#include <Foundation/Foundation.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <type_traits>

using namespace mps_simulator;

namespace {

// The value of a number, in one of four types.
struct Scalar {
  enum Kind { is_signed, is_unsigned, is_float, is_double };
  Kind kind;
  union {
    int64_t integer;
    double real;
  };

  Scalar() = default;
  template <typename T>
  explicit Scalar(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      kind = sizeof(T) == sizeof(float) ? is_float : is_double;
      real = value;
    } else {
      kind = std::is_signed_v<T> || sizeof(T) < sizeof(integer) ? is_signed : is_unsigned;
      integer = static_cast<int64_t>(value);
    }
  }

  bool is_real() const {
    return kind >= is_float;
  }

  template <typename T>
  T as() const {
    if (is_real()) {
      return static_cast<T>(real);
    }
    return kind == is_unsigned ? static_cast<T>(static_cast<uint64_t>(integer)) : static_cast<T>(integer);
  }

  bool operator==(const Scalar& other) const {
    if (is_real() || other.is_real()) {
      return as<long double>() == other.as<long double>();
    }
    return integer == other.integer && (kind == other.kind || integer >= 0);
  }
};

// Small integers fit into the pointer, as on a Mac: a bit for the type, the rest for the value.
constexpr int kValueBits = 55;

} // namespace

@interface SimulatorNumber : NSNumber {
 @public
  Scalar scalar;
}
@end

@interface SimulatorTaggedNumber : NSNumber
@end

@interface NSNumber ()
@property(readonly) Scalar simulatorScalar;
@end

namespace {

NSNumber* make_number(Scalar scalar) {
  static const int tagged_class = objc_registerTaggedPointerClass([SimulatorTaggedNumber class]);
  constexpr int64_t kLimit = INT64_C(1) << (kValueBits - 1);
  if (!scalar.is_real() && scalar.integer >= (scalar.kind == Scalar::is_signed ? -kLimit : 0) &&
      scalar.integer < kLimit && tagged_class >= 0) {
    const uint64_t value = static_cast<uint64_t>(scalar.integer) & ((UINT64_C(1) << kValueBits) - 1);
    return (NSNumber*)objc_createTaggedPointer(tagged_class, value << 1 | (scalar.kind == Scalar::is_unsigned));
  }
  SimulatorNumber* number = [[SimulatorNumber alloc] init];
  number->scalar = scalar;
  return number;
}

} // namespace

@implementation NSValue

SUPPORTS_SECURE_CODING

COPIES_BY_RETAINING

@end

@implementation NSNumber

@dynamic simulatorScalar; // by the subclasses

#define NUMBER_TYPE(Name, name, type)                \
  +(NSNumber*)numberWith##Name : (type)value {       \
    return [make_number(Scalar(value)) autorelease]; \
  }                                                  \
  -(type)name##Value {                               \
    return self.simulatorScalar.as<type>();          \
  }
NS_NUMBER_TYPES(NUMBER_TYPE)

- (instancetype)initWithInteger:(NSInteger)value {
  [self release];
  return (id)make_number(Scalar(value));
}

- (BOOL)isEqual:(id)object {
  return self == object ||
      ([object isKindOfClass:[NSNumber class]] && self.simulatorScalar == [object simulatorScalar]);
}

- (NSUInteger)hash {
  // Equal numbers of different types must agree.
  const Scalar scalar = self.simulatorScalar;
  const auto real = scalar.as<double>();
  const bool is_exact = real == std::trunc(real) && std::fabs(real) < 0x1p53;
  return is_exact ? static_cast<NSUInteger>(static_cast<int64_t>(real)) : std::hash<double>()(real);
}

- (NSString*)description {
  const Scalar scalar = self.simulatorScalar;
  char text[64];
  if (scalar.is_real()) {
    std::snprintf(text, sizeof(text), scalar.kind == Scalar::is_float ? "%.7g" : "%.16g", scalar.real);
  } else {
    std::snprintf(text, sizeof(text), scalar.kind == Scalar::is_unsigned ? "%" PRIu64 : "%" PRId64, scalar.integer);
  }
  return to_ns_string(text);
}

@end

@implementation SimulatorNumber

- (Scalar)simulatorScalar {
  return scalar;
}

@end

@implementation SimulatorTaggedNumber

- (Scalar)simulatorScalar {
  const uint64_t bits = object_getTaggedPointerValue(self);
  const int64_t value = static_cast<int64_t>(bits >> 1 << (64 - kValueBits)) >> (64 - kValueBits);
  return bits & 1 ? Scalar(static_cast<uint64_t>(value)) : Scalar(value);
}

IS_NEVER_FREED

@end
