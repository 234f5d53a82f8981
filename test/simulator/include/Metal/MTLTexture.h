#pragma once

// Textures are declared only so that encoders can refuse them; the simulated
// device cannot make one.

#import <Metal/MTLResource.h>

NS_ASSUME_NONNULL_BEGIN

@protocol MTLTexture <MTLResource>
@property(readonly) NSUInteger width;
@property(readonly) NSUInteger height;
@property(readonly) NSUInteger depth;
@end

@protocol MTLSamplerState <NSObject>
@property(nullable, readonly) NSString* label;
@property(readonly) id<MTLDevice> device;
@end

@protocol MTLVisibleFunctionTable <MTLResource>
@end

@protocol MTLIntersectionFunctionTable <MTLResource>
@end

@protocol MTLAccelerationStructure <MTLResource>
@end

@protocol MTLRenderPipelineState <NSObject>
@end

NS_ASSUME_NONNULL_END
