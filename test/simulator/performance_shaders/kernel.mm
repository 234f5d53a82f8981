#include "performance_shaders/encode.h"
#include "support/counters.h"
#include "support/error.h"

using namespace mps_simulator;

@implementation MPSKernel

@synthesize device = _device;

+ (BOOL)supportsSecureCoding {
  return YES;
}

- (instancetype)init {
  COUNT_CALL();
  VIOLATION("a kernel needs a device");
}

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  COUNT_CALL();
  check_device(device, __func__);
  if ((self = [super init])) {
    _device = [device retain];
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [_device release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone*)zone {
  return [self copyWithZone:zone device:nil];
}

- (instancetype)copyWithZone:(NSZone*)zone device:(id<MTLDevice>)device {
  UNSUPPORTED_CALL();
}

@end
