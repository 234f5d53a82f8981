#pragma once

#import <Metal/MTLCounters.h>

NS_ASSUME_NONNULL_BEGIN

typedef NS_ENUM(NSUInteger, MTLDispatchType) {
  MTLDispatchTypeSerial = 0,
  MTLDispatchTypeConcurrent = 1,
};

@interface MTLComputePassDescriptor : NSObject <NSCopying>
+ (MTLComputePassDescriptor*)computePassDescriptor;
@property(nonatomic) MTLDispatchType dispatchType;
@end

NS_ASSUME_NONNULL_END
