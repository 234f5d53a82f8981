#pragma once

#import <Metal/Metal.h>

// What buffers and heaps have in common.
@interface SimulatedResource : NSObject {
 @public
  NSString* _label;
  MTLResourceOptions _resourceOptions;
  MTLPurgeableState _purgeableState;
}
- (instancetype)initWithOptions:(MTLResourceOptions)options;
@property(copy, atomic) NSString* label;
@property(readonly) id<MTLDevice> device;
@property(readonly) MTLCPUCacheMode cpuCacheMode;
@property(readonly) MTLStorageMode storageMode;
@property(readonly) MTLHazardTrackingMode hazardTrackingMode;
@property(readonly) MTLResourceOptions resourceOptions;
- (MTLPurgeableState)setPurgeableState:(MTLPurgeableState)state;
// Called when the content may be thrown away.
- (void)purge;
@end
