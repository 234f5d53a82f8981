#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

using namespace mps_simulator;

@implementation NSData {
 @package
  std::vector<uint8_t> _storage;
  // Memory that this object does not own; used instead of the storage.
  uint8_t* _borrowed;
  NSUInteger _borrowedLength;
  BOOL _freeWhenDone;
}

SUPPORTS_SECURE_CODING

+ (instancetype)data {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
  return [[[self alloc] initWithBytes:bytes length:length] autorelease];
}

+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length {
  return [[[self alloc] initWithBytesNoCopy:bytes length:length] autorelease];
}

+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)freeWhenDone {
  return [[[self alloc] initWithBytesNoCopy:bytes length:length freeWhenDone:freeWhenDone] autorelease];
}

+ (instancetype)dataWithData:(NSData*)data {
  return [[[self alloc] initWithData:data] autorelease];
}

+ (instancetype)dataWithContentsOfFile:(NSString*)path {
  std::ifstream file(to_std_string(path), std::ios::binary);
  if (!file) {
    return nil;
  }
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  return [self dataWithBytes:content.data() length:content.size()];
}

- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length {
  if (bytes == nullptr && length > 0) {
    VIOLATION("%lu bytes from NULL", length);
  }
  const auto* first = static_cast<const uint8_t*>(bytes);
  _storage.assign(first, first + length);
  return self;
}

- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length {
  return [self initWithBytesNoCopy:bytes length:length freeWhenDone:YES];
}

- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)freeWhenDone {
  _borrowed = static_cast<uint8_t*>(bytes);
  _borrowedLength = length;
  _freeWhenDone = freeWhenDone;
  return self;
}

- (instancetype)initWithData:(NSData*)data {
  return [self initWithBytes:data.bytes length:data.length];
}

- (void)dealloc {
  if (_freeWhenDone) {
    std::free(_borrowed);
  }
  [super dealloc];
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableData alloc] initWithData:self];
}

- (NSUInteger)length {
  return _borrowed != nullptr ? _borrowedLength : _storage.size();
}

- (const void*)bytes {
  return _borrowed != nullptr ? _borrowed : _storage.data();
}

- (void)getBytes:(void*)buffer length:(NSUInteger)length {
  std::memcpy(buffer, self.bytes, MIN(length, self.length));
}

- (void)getBytes:(void*)buffer range:(NSRange)range {
  [self checkRange:range function:__func__];
  std::memcpy(buffer, static_cast<const uint8_t*>(self.bytes) + range.location, range.length);
}

- (NSData*)subdataWithRange:(NSRange)range {
  [self checkRange:range function:__func__];
  return [NSData dataWithBytes:static_cast<const uint8_t*>(self.bytes) + range.location length:range.length];
}

- (void)checkRange:(NSRange)range function:(const char*)function {
  if (range.location > self.length || range.length > self.length - range.location) {
    violation("%s: range {%lu, %lu} beyond length %lu", function, range.location, range.length, self.length);
  }
}

- (BOOL)isEqualToData:(NSData*)other {
  return other != nil && other.length == self.length && std::memcmp(self.bytes, other.bytes, self.length) == 0;
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSData class]] && [self isEqualToData:object]);
}

- (NSUInteger)hash {
  return std::hash<std::string_view>()({static_cast<const char*>(self.bytes), MIN(self.length, 80ul)});
}

- (NSString*)description {
  return [NSString stringWithFormat:@"{length = %lu}", self.length];
}

@end

@implementation NSMutableData

@dynamic length;

+ (instancetype)dataWithCapacity:(NSUInteger)capacity {
  return [[[self alloc] initWithCapacity:capacity] autorelease];
}

+ (instancetype)dataWithLength:(NSUInteger)length {
  return [[[self alloc] initWithLength:length] autorelease];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  _storage.reserve(capacity);
  return self;
}

- (instancetype)initWithLength:(NSUInteger)length {
  _storage.resize(length);
  return self;
}

- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)freeWhenDone {
  [self appendBytes:bytes length:length];
  if (freeWhenDone) {
    std::free(bytes);
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSData alloc] initWithData:self];
}

- (void*)mutableBytes {
  return _storage.data();
}

- (void)setLength:(NSUInteger)length {
  _storage.resize(length);
}

- (void)appendBytes:(const void*)bytes length:(NSUInteger)length {
  const auto* first = static_cast<const uint8_t*>(bytes);
  _storage.insert(_storage.end(), first, first + length);
}

- (void)appendData:(NSData*)other {
  NSData* kept = [other copy]; // it may be this object
  [self appendBytes:kept.bytes length:kept.length];
  [kept release];
}

@end
