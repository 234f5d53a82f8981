#include "foundation/copying.h"
#include "graph/operation.h"
#include "support/counters.h"

using namespace mps_simulator;

@implementation MPSGraphType

COPIES_PROPERTIES

@end

@implementation MPSGraphShapedType

- (instancetype)initWithShape:(MPSShape*)shape dataType:(MPSDataType)dataType {
  COUNT_CALL();
  if ((self = [super init])) {
    _shape = [shape copy];
    _dataType = dataType;
  }
  return self;
}

- (void)dealloc {
  [_shape release];
  [super dealloc];
}

- (BOOL)isEqualTo:(MPSGraphShapedType*)object {
  COUNT_CALL();
  return object && object.dataType == _dataType && (object.shape == _shape || [object.shape isEqual:_shape]);
}

- (BOOL)isEqual:(id)object {
  return [object isKindOfClass:[MPSGraphShapedType class]] && [self isEqualTo:object];
}

- (NSUInteger)hash {
  return _dataType ^ [_shape hash];
}

@end

@implementation MPSGraphDevice {
  id<MTLDevice> _metalDevice;
}

+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)metalDevice {
  COUNT_CALL();
  MPSGraphDevice* device = [[[self alloc] init] autorelease];
  device->_metalDevice = [metalDevice retain];
  return device;
}

- (void)dealloc {
  [_metalDevice release];
  [super dealloc];
}

- (MPSGraphDeviceType)type {
  return MPSGraphDeviceTypeMetal;
}

- (id<MTLDevice>)metalDevice {
  return [[_metalDevice retain] autorelease];
}

@end
