#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

using namespace mps_simulator;

namespace {

// Which C type a number was made from is part of it (-objCType).
struct Scalar {
  char type; // as @encode writes it
  union {
    int64_t integer; // every signed type, BOOL, and the smaller unsigned ones
    uint64_t unsigned_integer; // 'L', 'Q'
    double real; // 'f', 'd'
  };

  Scalar() = default;
  Scalar(char type, int64_t value) : type(type), integer(value) {}
  Scalar(char type, uint64_t value) : type(type), unsigned_integer(value) {}
  Scalar(char type, double value) : type(type), real(value) {}

  bool is_real() const {
    return type == 'f' || type == 'd';
  }

  bool is_wide_unsigned() const {
    return type == 'L' || type == 'Q';
  }

  template <typename T>
  T as() const {
    if (is_real()) {
      return static_cast<T>(real);
    }
    return is_wide_unsigned() ? static_cast<T>(unsigned_integer) : static_cast<T>(integer);
  }

  bool operator==(const Scalar& other) const {
    return compare(other) == 0;
  }

  int compare(const Scalar& other) const {
    if (is_real() || other.is_real()) {
      const auto left = as<long double>();
      const auto right = other.as<long double>();
      return left < right ? -1 : left > right ? 1 : 0;
    }
    const bool negative = !is_wide_unsigned() && integer < 0;
    const bool other_negative = !other.is_wide_unsigned() && other.integer < 0;
    if (negative != other_negative) {
      return negative ? -1 : 1;
    }
    if (negative) {
      return integer < other.integer ? -1 : integer > other.integer;
    }
    return unsigned_integer < other.unsigned_integer ? -1 : unsigned_integer > other.unsigned_integer;
  }
};

// Small integers fit into the pointer, as on a Mac: five bits for the type, the
// rest for the value.
constexpr char kTypes[] = "cCsSiIlLqQfdB";
constexpr int kTypeBits = 5;
constexpr int kValueBits = 60 - kTypeBits;

const char* type_name(char type) {
  static constexpr const char* kNames[] = {"c", "C", "s", "S", "i", "I", "l", "L", "q", "Q", "f", "d", "B"};
  return kNames[std::strchr(kTypes, type) - kTypes];
}

} // namespace

@interface SimulatorNumber : NSNumber {
 @public
  Scalar scalar;
}
@end

@interface SimulatorTaggedNumber : NSNumber
@end

@interface NSNumber ()
- (Scalar)simulatorScalar;
@end

namespace {

int tagged_class() {
  static const int index = objc_registerTaggedPointerClass([SimulatorTaggedNumber class]);
  return index;
}

NSNumber* make_number(Scalar scalar) {
  constexpr int64_t kLimit = INT64_C(1) << (kValueBits - 1);
  if (!scalar.is_real() && scalar.integer >= -kLimit && scalar.integer < kLimit && tagged_class() >= 0 &&
      !(scalar.is_wide_unsigned() && scalar.integer < 0)) {
    const uint64_t type = std::strchr(kTypes, scalar.type) - kTypes;
    const uint64_t value = static_cast<uint64_t>(scalar.integer) & ((UINT64_C(1) << kValueBits) - 1);
    return (NSNumber*)objc_createTaggedPointer(tagged_class(), value << kTypeBits | type);
  }
  SimulatorNumber* number = [[SimulatorNumber alloc] init];
  number->scalar = scalar;
  return number;
}

NSNumber* replace_with(NSNumber* placeholder, Scalar scalar) {
  [placeholder release];
  return make_number(scalar);
}

} // namespace

@implementation NSValue

SUPPORTS_SECURE_CODING

COPIES_BY_RETAINING

@end

@implementation NSNumber

+ (instancetype)alloc {
  // The initializers return another object: which one depends on the value.
  return self == [NSNumber class] ? (id)[SimulatorNumber alloc] : [super alloc];
}

#define NUMBER_TYPE(Name, ctype, code, stored)                                    \
  +(NSNumber*)numberWith##Name : (ctype)value {                                   \
    return [make_number(Scalar(code, static_cast<stored>(value))) autorelease];   \
  }                                                                               \
  -(instancetype)initWith##Name : (ctype)value {                                  \
    return (id)replace_with(self, Scalar(code, static_cast<stored>(value)));      \
  }

NUMBER_TYPE(Char, char, 'c', int64_t)
NUMBER_TYPE(UnsignedChar, unsigned char, 'C', int64_t)
NUMBER_TYPE(Short, short, 's', int64_t)
NUMBER_TYPE(UnsignedShort, unsigned short, 'S', int64_t)
NUMBER_TYPE(Int, int, 'i', int64_t)
NUMBER_TYPE(UnsignedInt, unsigned int, 'I', int64_t)
NUMBER_TYPE(Long, long, 'q', int64_t)
NUMBER_TYPE(UnsignedLong, unsigned long, 'Q', uint64_t)
NUMBER_TYPE(LongLong, long long, 'q', int64_t)
NUMBER_TYPE(UnsignedLongLong, unsigned long long, 'Q', uint64_t)
NUMBER_TYPE(Float, float, 'f', double)
NUMBER_TYPE(Double, double, 'd', double)
NUMBER_TYPE(Bool, BOOL, 'B', int64_t)
NUMBER_TYPE(Integer, NSInteger, 'q', int64_t)
NUMBER_TYPE(UnsignedInteger, NSUInteger, 'Q', uint64_t)

#define GETTER(name, ctype)                    \
  -(ctype)name##Value {                        \
    return [self simulatorScalar].as<ctype>(); \
  }

GETTER(char, char)
GETTER(unsignedChar, unsigned char)
GETTER(short, short)
GETTER(unsignedShort, unsigned short)
GETTER(int, int)
GETTER(unsignedInt, unsigned int)
GETTER(long, long)
GETTER(unsignedLong, unsigned long)
GETTER(longLong, long long)
GETTER(unsignedLongLong, unsigned long long)
GETTER(float, float)
GETTER(double, double)
GETTER(integer, NSInteger)
GETTER(unsignedInteger, NSUInteger)

- (BOOL)boolValue {
  const Scalar scalar = [self simulatorScalar];
  return scalar.is_real() ? scalar.real != 0 : scalar.integer != 0;
}

- (Scalar)simulatorScalar {
  unsupported("-[%s doubleValue]", object_getClassName(self));
}

- (const char*)objCType {
  return type_name([self simulatorScalar].type);
}

- (void)getValue:(void*)value {
  const Scalar scalar = [self simulatorScalar];
  switch (scalar.type) {
    case 'f': {
      const float single = scalar.real;
      std::memcpy(value, &single, sizeof(single));
      return;
    }
    case 'd':
      std::memcpy(value, &scalar.real, sizeof(scalar.real));
      return;
    default: {
      const size_t size = std::strchr("cCB", scalar.type) != nullptr ? 1
          : std::strchr("sS", scalar.type) != nullptr                ? 2
          : std::strchr("iI", scalar.type) != nullptr                ? 4
                                                                     : 8;
      std::memcpy(value, &scalar.integer, size);
    }
  }
}

- (NSComparisonResult)compare:(NSNumber*)number {
  return static_cast<NSComparisonResult>([self simulatorScalar].compare([number simulatorScalar]));
}

- (BOOL)isEqualToNumber:(NSNumber*)number {
  return number != nil && [self simulatorScalar] == [number simulatorScalar];
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSNumber class]] && [self isEqualToNumber:object]);
}

- (NSUInteger)hash {
  // Equal numbers of different types must agree.
  const Scalar scalar = [self simulatorScalar];
  if (scalar.is_real()) {
    const double real = scalar.real;
    const bool integral = real == std::trunc(real) && std::fabs(real) < 0x1p53;
    return integral ? static_cast<NSUInteger>(static_cast<int64_t>(real)) : std::hash<double>()(real);
  }
  if (scalar.unsigned_integer + (UINT64_C(1) << 53) >= UINT64_C(1) << 54) {
    return std::hash<double>()(scalar.as<double>());
  }
  return scalar.unsigned_integer;
}

- (NSString*)stringValue {
  const Scalar scalar = [self simulatorScalar];
  char text[64];
  if (scalar.is_real()) {
    if (std::isnan(scalar.real)) {
      return @"nan";
    }
    std::snprintf(text, sizeof(text), scalar.type == 'f' ? "%.7g" : "%.16g", scalar.real);
  } else if (scalar.is_wide_unsigned()) {
    std::snprintf(text, sizeof(text), "%" PRIu64, scalar.unsigned_integer);
  } else {
    std::snprintf(text, sizeof(text), "%" PRId64, scalar.integer);
  }
  return to_ns_string(text);
}

- (NSString*)description {
  return self.stringValue;
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
  const int64_t shifted = static_cast<int64_t>(bits >> kTypeBits << (64 - kValueBits));
  return Scalar(kTypes[bits & ((1 << kTypeBits) - 1)], shifted >> (64 - kValueBits));
}

IS_NEVER_FREED

@end
