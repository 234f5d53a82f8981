#pragma once

#include <MetalPerformanceShadersGraph/MPSGraphCore.h>

#pragma clang assume_nonnull begin

typedef NS_ENUM(uint32_t, MPSGraphDeviceType) {
  MPSGraphDeviceTypeMetal = 0,
};

@interface MPSGraphDevice : MPSGraphObject

@property(readonly, nonatomic) MPSGraphDeviceType type;
@property(readonly, nullable, nonatomic) id<MTLDevice> metalDevice;

+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)metalDevice;

@end

#pragma clang assume_nonnull end
