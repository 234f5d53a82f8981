#pragma once

// Counter sampling is refused by the simulated encoders.

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLCounterSampleBuffer <NSObject>
@property(readonly) NSUInteger sampleCount;
@end

NS_ASSUME_NONNULL_END
