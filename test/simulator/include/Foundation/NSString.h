#pragma once

#include <Foundation/NSObject.h>

typedef NSUInteger NSStringEncoding;
enum : NSStringEncoding {
  NSASCIIStringEncoding = 1,
  NSUTF8StringEncoding = 4,
};

// Holds UTF-8. Lengths and indices count UTF-16 units, as on a Mac.
@interface NSString : NSObject<NSCopying, NSSecureCoding>
@property(readonly) NSUInteger length;
@end

@interface NSString (NSStringExtensionMethods)
+ (instancetype)stringWithUTF8String:(const char*)bytes;
+ (instancetype)stringWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding;
+ (instancetype)stringWithFormat:(NSString*)format, ...;
@property(readonly) const char* UTF8String;
- (BOOL)isEqualToString:(NSString*)string;
@end

// The compiler lays literals out as {isa, bytes, length}; see
// -fconstant-string-class.
@interface NSConstantString : NSString {
 @private
  const char* _bytes;
  unsigned int _byteLength;
}
@end

@interface NSURL : NSObject <NSCopying, NSSecureCoding>
+ (NSURL*)fileURLWithPath:(NSString*)path;
@property(readonly, copy) NSString* path;
@end
