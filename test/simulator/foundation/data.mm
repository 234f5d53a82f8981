#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <string_view>
#include <vector>

using namespace mps_simulator;

@implementation NSData {
 @package
  std::vector<uint8_t> _storage;
}

SUPPORTS_SECURE_CODING

+ (instancetype)data {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
  return [[[self alloc] initWithBytes:bytes length:length] autorelease];
}

- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length {
  if (bytes == nullptr && length > 0) {
    VIOLATION("%lu bytes from NULL", length);
  }
  const auto* first = static_cast<const uint8_t*>(bytes);
  _storage.assign(first, first + length);
  return self;
}

COPIES_BY_RETAINING

- (NSUInteger)length {
  return _storage.size();
}

- (const void*)bytes {
  return _storage.data();
}

- (BOOL)isEqualToData:(NSData*)other {
  return other != nil && other->_storage == _storage;
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
