#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

@interface MPSKernel : NSObject <NSCopying, NSSecureCoding>
@property(readwrite, nonatomic) MPSKernelOptions options;
@property(readonly, retain, nonatomic, nonnull) id<MTLDevice> device;
@property(copy, atomic, nullable) NSString* label;
- (nonnull instancetype)initWithDevice:(nonnull id<MTLDevice>)device;
- (nonnull instancetype)copyWithZone:(nullable NSZone*)zone device:(nullable id<MTLDevice>)device;
@end
