#include "foundation/copying.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <vector>

using namespace mps_simulator;

@implementation NSData {
 @package
  std::vector<uint8_t> _storage;
}

SUPPORTS_SECURE_CODING

+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
  if (bytes == nullptr && length > 0) {
    VIOLATION("%lu bytes from NULL", length);
  }
  NSData* data = [[[self alloc] init] autorelease];
  const auto* first = static_cast<const uint8_t*>(bytes);
  data->_storage.assign(first, first + length);
  return data;
}

COPIES_BY_RETAINING

- (NSUInteger)length {
  return _storage.size();
}

- (const void*)bytes {
  return _storage.data();
}

@end
