#pragma once

#include <Foundation/NSObject.h>

@class NSArray<ObjectType>;
@class NSData;
@class NSError;
@class NSURL;

typedef unsigned short unichar;
typedef NSUInteger NSStringEncoding;
enum : NSStringEncoding {
  NSASCIIStringEncoding = 1,
  NSUTF8StringEncoding = 4,
};

typedef NS_OPTIONS(NSUInteger, NSStringCompareOptions) {
  NSCaseInsensitiveSearch = 1,
  NSLiteralSearch = 2,
  NSBackwardsSearch = 4,
};

// Holds UTF-8. Lengths and indices count UTF-16 units, as on a Mac.
@interface NSString : NSObject <NSCopying, NSMutableCopying, NSSecureCoding>
@property(readonly) NSUInteger length;
@end

@interface NSString (NSStringExtensionMethods)
+ (instancetype)string;
+ (instancetype)stringWithUTF8String:(const char*)bytes;
+ (instancetype)stringWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding;
+ (instancetype)stringWithFormat:(NSString*)format, ...;
- (instancetype)initWithUTF8String:(const char*)bytes;
- (instancetype)initWithCString:(const char*)bytes encoding:(NSStringEncoding)encoding;
- (instancetype)initWithString:(NSString*)string;
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding;
- (instancetype)initWithData:(NSData*)data encoding:(NSStringEncoding)encoding;
- (instancetype)initWithFormat:(NSString*)format, ...;
- (instancetype)initWithFormat:(NSString*)format arguments:(va_list)arguments;
@property(readonly) const char* UTF8String;
- (BOOL)isEqualToString:(NSString*)string;
- (NSComparisonResult)compare:(NSString*)string;
- (BOOL)hasPrefix:(NSString*)prefix;
- (BOOL)containsString:(NSString*)string;
- (NSRange)rangeOfString:(NSString*)string;
- (NSRange)rangeOfString:(NSString*)string options:(NSStringCompareOptions)options;
- (NSString*)substringFromIndex:(NSUInteger)index;
- (NSString*)stringByAppendingString:(NSString*)string;
@property(readonly, copy) NSString* lowercaseString;
@property(readonly, copy) NSString* lastPathComponent;
@property(readonly) double doubleValue;
@property(readonly) float floatValue;
@property(readonly) int intValue;
@property(readonly) NSInteger integerValue;
@property(readonly) long long longLongValue;
@property(readonly) BOOL boolValue;
@end

@interface NSMutableString : NSString
- (void)appendString:(NSString*)string;
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
- (instancetype)initFileURLWithPath:(NSString*)path;
@property(readonly, copy) NSString* absoluteString;
@property(readonly, copy) NSString* path;
@end
