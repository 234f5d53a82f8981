#include "foundation/copying.h"
#include "foundation/string.h"
#include "foundation/type_encoding.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstring>
#include <vector>

using namespace mps_simulator;

@implementation NSValue {
  std::string _type;
  std::vector<uint8_t> _bytes;
}

SUPPORTS_SECURE_CODING

+ (NSValue*)valueWithBytes:(const void*)value objCType:(const char*)type {
  return [[[NSValue alloc] initWithBytes:value objCType:type] autorelease];
}

+ (NSValue*)value:(const void*)value withObjCType:(const char*)type {
  return [self valueWithBytes:value objCType:type];
}

+ (NSValue*)valueWithPointer:(const void*)pointer {
  return [self valueWithBytes:&pointer objCType:"^v"];
}

+ (NSValue*)valueWithNonretainedObject:(id)object {
  return [self valueWithBytes:&object objCType:"@"];
}

+ (NSValue*)valueWithRange:(NSRange)range {
  return [self valueWithBytes:&range objCType:@encode(NSRange)];
}

- (instancetype)initWithBytes:(const void*)value objCType:(const char*)type {
  const auto encoded = parse_type(type);
  _type = encoded.text;
  const auto* bytes = static_cast<const uint8_t*>(value);
  _bytes.assign(bytes, bytes + encoded.size);
  return self;
}

- (const char*)objCType {
  return _type.c_str();
}

- (void)getValue:(void*)value {
  std::memcpy(value, _bytes.data(), _bytes.size());
}

- (void)getValue:(void*)value size:(NSUInteger)size {
  if (size != _bytes.size()) {
    VIOLATION("size %lu of a value of %zu bytes", size, _bytes.size());
  }
  [self getValue:value];
}

- (void*)pointerValue {
  void* pointer = nullptr;
  [self getValue:&pointer size:sizeof(pointer)];
  return pointer;
}

- (id)nonretainedObjectValue {
  return (id)self.pointerValue;
}

- (NSRange)rangeValue {
  NSRange range;
  [self getValue:&range size:sizeof(range)];
  return range;
}

- (BOOL)isEqualToValue:(NSValue*)value {
  return value != nil && _type == value->_type && _bytes == value->_bytes;
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isMemberOfClass:[NSValue class]] && [self isEqualToValue:object]);
}

- (NSUInteger)hash {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(_bytes.data()), _bytes.size()});
}

COPIES_BY_RETAINING

- (NSString*)description {
  std::string text = "{length = " + std::to_string(_bytes.size()) + ", bytes = 0x";
  for (const uint8_t byte : _bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return to_ns_string(text + "}");
}

@end

NSString* NSStringFromRange(NSRange range) {
  return [NSString stringWithFormat:@"{%lu, %lu}", range.location, range.length];
}
