#include "foundation/string.h"

#include "foundation/copying.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdarg>

using namespace mps_simulator;

// Every string but the constant ones. `text` is UTF-8.
@interface SimulatorString : NSString {
 @public
  std::string text;
}
@end

@interface NSString ()
@property(readonly) std::string_view simulatorText;
@end

namespace mps_simulator {

std::string_view string_view_of(NSString* string) {
  return string == nil ? std::string_view() : string.simulatorText;
}

std::string to_std_string(NSString* string) {
  return std::string(string_view_of(string));
}

NSString* to_ns_string(std::string_view text) {
  SimulatorString* string = [[[SimulatorString alloc] init] autorelease];
  string->text = text;
  return string;
}

} // namespace mps_simulator

@implementation NSString

@dynamic simulatorText; // by the subclasses

SUPPORTS_SECURE_CODING

COPIES_BY_RETAINING

+ (instancetype)stringWithUTF8String:(const char*)bytes {
  if (bytes == nullptr) {
    VIOLATION("the argument is NULL");
  }
  return (id)to_ns_string(bytes);
}

+ (instancetype)stringWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding {
  if (encoding != NSUTF8StringEncoding && encoding != NSASCIIStringEncoding) {
    unsupported("%s with encoding %lu", __func__, encoding);
  }
  return [self stringWithUTF8String:bytes];
}

+ (instancetype)stringWithFormat:(NSString*)format, ... {
  va_list arguments;
  va_start(arguments, format);
  NSString* result = to_ns_string(format_string(string_view_of(format), arguments));
  va_end(arguments);
  return (id)result;
}

- (NSUInteger)length {
  NSUInteger units = 0;
  for (const unsigned char byte : self.simulatorText) {
    units += byte < 0x80 || byte >= 0xC0;
    units += byte >= 0xF0;
  }
  return units;
}

- (const char*)UTF8String {
  return self.simulatorText.data();
}

- (NSUInteger)hash {
  return std::hash<std::string_view>()(self.simulatorText);
}

- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[NSString class]] && [self isEqualToString:object];
}

- (BOOL)isEqualToString:(NSString*)string {
  return string != nil && self.simulatorText == string.simulatorText;
}

- (NSString*)description {
  return self;
}

@end

@implementation SimulatorString

- (std::string_view)simulatorText {
  return text;
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
