#pragma once

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLDevice;
@protocol MTLCommandQueue;

@protocol MTLCaptureScope <NSObject>
- (void)beginScope;
- (void)endScope;
@property(nullable, copy, atomic) NSString* label;
@property(nonnull, readonly, nonatomic) id<MTLDevice> device;
@property(nullable, readonly, nonatomic) id<MTLCommandQueue> commandQueue;
@end

NS_ASSUME_NONNULL_END
