#import "metal/resource.h"

#import "metal/device.h"
#include "support/counters.h"

@implementation SimulatedResource

@synthesize label = _label;

- (instancetype)initWithOptions:(MTLResourceOptions)options {
  if ((self = [super init])) {
    _resourceOptions = options;
    _purgeableState = MTLPurgeableStateNonVolatile;
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return mps_simulator::device();
}

- (MTLResourceOptions)resourceOptions {
  return _resourceOptions;
}

- (MTLCPUCacheMode)cpuCacheMode {
  return static_cast<MTLCPUCacheMode>(_resourceOptions & 0xf);
}

- (MTLStorageMode)storageMode {
  return static_cast<MTLStorageMode>(_resourceOptions >> MTLResourceStorageModeShift & 0xf);
}

- (MTLHazardTrackingMode)hazardTrackingMode {
  return static_cast<MTLHazardTrackingMode>(_resourceOptions >> MTLResourceHazardTrackingModeShift & 0x3);
}

- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state {
  COUNT_CALL();
  const auto previous = _purgeableState;
  if (state != MTLPurgeableStateKeepCurrent) {
    _purgeableState = state;
    // The system may throw volatile content away at any moment, so it does.
    if (state == MTLPurgeableStateEmpty || state == MTLPurgeableStateVolatile) {
      [self purge];
    }
  }
  return previous;
}

- (void)purge {
}

@end
