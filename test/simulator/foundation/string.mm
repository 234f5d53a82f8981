#include "foundation/string.h"

#include "foundation/copying.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

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

- (unichar)characterAtIndex:(NSUInteger)index {
  const auto units = to_utf16([self simulatorText]);
  if (index >= units.size()) {
    VIOLATION("index %lu beyond length %zu", index, units.size());
  }
  return units[index];
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableString alloc] initWithString:self];
}

// MARK: Making strings

+ (instancetype)string {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)stringWithString:(NSString*)string {
  return [[[self alloc] initWithString:string] autorelease];
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

+ (instancetype)stringWithContentsOfFile:(NSString*)path encoding:(NSStringEncoding)encoding error:(NSError**)error {
  check_encoding(encoding, __func__);
  std::ifstream file(to_std_string(path), std::ios::binary);
  std::ostringstream content;
  if (!(file && content << file.rdbuf())) {
    if (error != nullptr) {
      *error =
          [NSError errorWithDomain:NSPOSIXErrorDomain
                              code:errno
                          userInfo:@{NSLocalizedDescriptionKey : to_ns_string("cannot read " + to_std_string(path))}];
    }
    return nil;
  }
  return [[[self alloc] simulatorInitWithText:content.str()] autorelease];
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

- (const char*)cStringUsingEncoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  return self.UTF8String;
}

- (BOOL)getCString:(char*)buffer maxLength:(NSUInteger)length encoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  const auto text = [self simulatorText];
  if (text.size() + 1 > length) {
    return NO;
  }
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return YES;
}

- (NSUInteger)lengthOfBytesUsingEncoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  return [self simulatorText].size();
}

- (NSData*)dataUsingEncoding:(NSStringEncoding)encoding {
  check_encoding(encoding, __func__);
  const auto text = [self simulatorText];
  return [NSData dataWithBytes:text.data() length:text.size()];
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

- (NSComparisonResult)caseInsensitiveCompare:(NSString*)string {
  return [self.lowercaseString compare:string.lowercaseString];
}

// MARK: Parts

- (BOOL)hasPrefix:(NSString*)prefix {
  const auto text = [self simulatorText];
  const auto other = string_view_of(prefix);
  return text.substr(0, other.size()) == other;
}

- (BOOL)hasSuffix:(NSString*)suffix {
  const auto text = [self simulatorText];
  const auto other = string_view_of(suffix);
  return text.size() >= other.size() && text.substr(text.size() - other.size()) == other;
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

- (NSString*)substringToIndex:(NSUInteger)index {
  const auto text = [self simulatorText];
  return to_ns_string(text.substr(0, byte_offset(text, index, __func__)));
}

- (NSString*)substringWithRange:(NSRange)range {
  const auto text = [self simulatorText];
  const size_t begin = byte_offset(text, range.location, __func__);
  return to_ns_string(text.substr(begin, byte_offset(text, NSMaxRange(range), __func__) - begin));
}

- (NSString*)stringByAppendingString:(NSString*)string {
  if (string == nil) {
    VIOLATION("the argument is nil");
  }
  return to_ns_string(to_std_string(self).append(string_view_of(string)));
}

- (NSString*)stringByAppendingFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  NSString* tail = [[[NSString alloc] initWithFormat:format arguments:arguments] autorelease];
  va_end(arguments);
  return [self stringByAppendingString:tail];
}

- (NSString*)stringByAppendingPathComponent:(NSString*)component {
  std::string path = to_std_string(self);
  if (!path.empty() && path.back() != '/') {
    path += '/';
  }
  auto tail = string_view_of(component);
  while (!tail.empty() && tail.front() == '/') {
    tail.remove_prefix(1);
  }
  return to_ns_string(path.append(tail));
}

- (NSString*)stringByReplacingOccurrencesOfString:(NSString*)target withString:(NSString*)replacement {
  std::string text = to_std_string(self);
  const auto from = string_view_of(target);
  const auto to = string_view_of(replacement);
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return to_ns_string(text);
}

- (NSArray<NSString*>*)componentsSeparatedByString:(NSString*)separator {
  NSMutableArray<NSString*>* components = [NSMutableArray array];
  const auto text = [self simulatorText];
  const auto between = string_view_of(separator);
  size_t begin = 0;
  while (!between.empty()) {
    const size_t end = text.find(between, begin);
    if (end == text.npos) {
      break;
    }
    [components addObject:to_ns_string(text.substr(begin, end - begin))];
    begin = end + between.size();
  }
  [components addObject:to_ns_string(text.substr(begin))];
  return components;
}

- (NSString*)lowercaseString {
  return to_ns_string(map_characters([self simulatorText], std::tolower));
}

- (NSString*)uppercaseString {
  return to_ns_string(map_characters([self simulatorText], std::toupper));
}

- (NSString*)lastPathComponent {
  auto text = [self simulatorText];
  while (text.size() > 1 && text.back() == '/') {
    text.remove_suffix(1);
  }
  const size_t slash = text.rfind('/');
  return to_ns_string(slash == text.npos || text.size() == 1 ? text : text.substr(slash + 1));
}

- (NSString*)pathExtension {
  const auto name = string_view_of(self.lastPathComponent);
  const size_t dot = name.rfind('.');
  return to_ns_string(dot == name.npos || dot == 0 ? std::string_view() : name.substr(dot + 1));
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

+ (instancetype)stringWithCapacity:(NSUInteger)capacity {
  return [[[self alloc] initWithCapacity:capacity] autorelease];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  _text.reserve(capacity);
  return self;
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

- (void)appendFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  const std::string tail = format_string(string_view_of(format), arguments);
  va_end(arguments);
  _text += tail;
}

- (void)setString:(NSString*)string {
  _text = to_std_string(string);
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
