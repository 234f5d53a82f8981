#include "foundation/string.h"

#include "foundation/copying.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

using namespace mps_simulator;

// Every string but the constant ones. `text` is UTF-8.
@interface SimulatorString : NSString {
 @public
  std::string text;
}
@end

@interface NSString ()
- (std::string_view)simulatorText;
- (instancetype)simulatorInitWithText:(std::string)text;
@end

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::u16string to_utf16(std::string_view text) {
  std::u16string units;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3F);
    }
    i += length;
    if (code < 0x10000) {
      units += static_cast<char16_t>(code);
    } else {
      code -= 0x10000;
      units += static_cast<char16_t>(0xD800 + (code >> 10));
      units += static_cast<char16_t>(0xDC00 + (code & 0x3FF));
    }
  }
  return units;
}

// The offset of the byte that starts the given UTF-16 unit.
size_t byte_offset(std::string_view text, size_t unit, const char* function) {
  size_t units = 0;
  size_t offset = 0;
  while (offset < text.size() && units < unit) {
    const auto lead = static_cast<unsigned char>(text[offset]);
    offset += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    units += lead < 0xF0 ? 1 : 2;
  }
  if (units != unit) {
    violation("%s: index %zu is beyond the string or inside a character", function, unit);
  }
  return offset;
}

void check_encoding(NSStringEncoding encoding, const char* function) {
  if (encoding != NSUTF8StringEncoding && encoding != NSASCIIStringEncoding) {
    unsupported("%s with encoding %lu", function, encoding);
  }
}

std::string map_characters(std::string_view text, int (*map)(int)) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x80) {
      c = static_cast<char>(map(c));
    }
  }
  return result;
}

} // namespace

namespace mps_simulator {

std::string_view string_view_of(NSString* string) {
  return string == nil ? std::string_view() : [string simulatorText];
}

std::string to_std_string(NSString* string) {
  return std::string(string_view_of(string));
}

NSString* to_ns_string(std::string_view text) {
  return [[[SimulatorString alloc] simulatorInitWithText:std::string(text)] autorelease];
}

} // namespace mps_simulator

@implementation NSString

+ (instancetype)alloc {
  if (self == [NSString class]) {
    return (id)[SimulatorString alloc];
  }
  return [super alloc];
}

SUPPORTS_SECURE_CODING

- (std::string_view)simulatorText {
  unsupported("-[%s UTF8String]", object_getClassName(self));
}

- (instancetype)simulatorInitWithText:(std::string)text {
  unsupported("-[%s initWithUTF8String:]", object_getClassName(self));
}

- (NSUInteger)length {
  const auto text = [self simulatorText];
  return is_ascii(text) ? text.size() : to_utf16(text).size();
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableString alloc] initWithString:self];
}

// MARK: Making strings

+ (instancetype)string {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)stringWithUTF8String:(const char*)bytes {
  return [[[self alloc] initWithUTF8String:bytes] autorelease];
}

+ (instancetype)stringWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding {
  return [[[self alloc] initWithCString:bytes encoding:encoding] autorelease];
}

+ (instancetype)stringWithFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  NSString* result = [[self alloc] initWithFormat:format arguments:arguments];
  va_end(arguments);
  return (id)[result autorelease];
}

- (instancetype)initWithUTF8String:(const char*)bytes {
  if (bytes == nullptr) {
    VIOLATION("the argument is NULL");
  }
  return [self simulatorInitWithText:bytes];
}

- (instancetype)initWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  return [self initWithUTF8String:bytes];
}

- (instancetype)initWithString:(NSString*)string {
  if (string == nil) {
    VIOLATION("the argument is nil");
  }
  return [self simulatorInitWithText:to_std_string(string)];
}

- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  return [self simulatorInitWithText:std::string(static_cast<const char*>(bytes), length)];
}

- (instancetype)initWithData:(NSData*)data encoding:(NSStringEncoding)encoding {
  return [self initWithBytes:data.bytes length:data.length encoding:encoding];
}

- (instancetype)initWithFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  id result = [self initWithFormat:format arguments:arguments];
  va_end(arguments);
  return result;
}

- (instancetype)initWithFormat:(NSString*)format arguments:(va_list)arguments {
  return [self simulatorInitWithText:format_string(string_view_of(format), arguments)];
}

// MARK: Bytes

- (const char*)UTF8String {
  return [self simulatorText].data();
}

// MARK: Comparing

- (NSUInteger)hash {
  return std::hash<std::string_view>()([self simulatorText]);
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSString class]] && [self isEqualToString:object]);
}

- (BOOL)isEqualToString:(NSString*)string {
  return string != nil && [self simulatorText] == [string simulatorText];
}

- (NSComparisonResult)compare:(NSString*)string {
  const int order = [self simulatorText].compare(string_view_of(string));
  return order < 0 ? NSOrderedAscending : order > 0 ? NSOrderedDescending : NSOrderedSame;
}

// MARK: Parts

- (BOOL)hasPrefix:(NSString*)prefix {
  const auto text = [self simulatorText];
  const auto other = string_view_of(prefix);
  return text.substr(0, other.size()) == other;
}

- (BOOL)containsString:(NSString*)string {
  return [self rangeOfString:string].location != static_cast<NSUInteger>(NSNotFound);
}

- (NSRange)rangeOfString:(NSString*)string {
  return [self rangeOfString:string options:NSLiteralSearch];
}

- (NSRange)rangeOfString:(NSString*)string options:(NSStringCompareOptions)options {
  const BOOL ignore_case = (options & NSCaseInsensitiveSearch) != 0;
  const auto text = to_utf16(string_view_of(ignore_case ? self.lowercaseString : self));
  const auto other = to_utf16(string_view_of(ignore_case ? string.lowercaseString : string));
  const size_t location = other.empty()    ? text.npos
      : (options & NSBackwardsSearch) != 0 ? text.rfind(other)
                                           : text.find(other);
  return location == text.npos ? NSMakeRange(NSNotFound, 0) : NSMakeRange(location, other.size());
}

- (NSString*)substringFromIndex:(NSUInteger)index {
  const auto text = [self simulatorText];
  return to_ns_string(text.substr(byte_offset(text, index, __func__)));
}

- (NSString*)stringByAppendingString:(NSString*)string {
  if (string == nil) {
    VIOLATION("the argument is nil");
  }
  return to_ns_string(to_std_string(self).append(string_view_of(string)));
}

- (NSString*)lowercaseString {
  return to_ns_string(map_characters([self simulatorText], std::tolower));
}

- (NSString*)lastPathComponent {
  auto text = [self simulatorText];
  while (text.size() > 1 && text.back() == '/') {
    text.remove_suffix(1);
  }
  const size_t slash = text.rfind('/');
  return to_ns_string(slash == text.npos || text.size() == 1 ? text : text.substr(slash + 1));
}

// MARK: Numbers

- (double)doubleValue {
  return std::strtod(self.UTF8String, nullptr);
}

- (float)floatValue {
  return std::strtof(self.UTF8String, nullptr);
}

- (int)intValue {
  return static_cast<int>(std::clamp<long>(std::strtol(self.UTF8String, nullptr, 10), INT_MIN, INT_MAX));
}

- (NSInteger)integerValue {
  return std::strtol(self.UTF8String, nullptr, 10);
}

- (long long)longLongValue {
  return std::strtoll(self.UTF8String, nullptr, 10);
}

- (BOOL)boolValue {
  const auto text = [self simulatorText];
  const size_t start = text.find_first_not_of(" \t\n+-0");
  return start != text.npos && std::string_view("YyTt123456789").find(text[start]) != std::string_view::npos;
}

- (NSString*)description {
  return self;
}

@end

@implementation SimulatorString

- (std::string_view)simulatorText {
  return text;
}

- (instancetype)simulatorInitWithText:(std::string)newText {
  text = std::move(newText);
  return self;
}

@end

@implementation NSMutableString {
  std::string _text;
}

- (std::string_view)simulatorText {
  return _text;
}

- (instancetype)simulatorInitWithText:(std::string)text {
  _text = std::move(text);
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSString alloc] initWithString:self];
}

- (void)appendString:(NSString*)string {
  if (string == nil) {
    VIOLATION("the argument is nil");
  }
  _text.append(string_view_of(string));
}

@end

// Literals live in the data of the library that wrote them: they have no retain
// count and never go.
@implementation NSConstantString

- (std::string_view)simulatorText {
  return {_bytes, _byteLength};
}

IS_NEVER_FREED

@end
