#pragma once

#import <Metal/MTLResource.h>

NS_ASSUME_NONNULL_BEGIN

@class MTLTextureDescriptor;
@protocol MTLTexture;

@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
@property(readonly) uint64_t gpuAddress;
@property(nullable, readonly) id<MTLBuffer> remoteStorageBuffer;
- (void*)contents;
- (void)didModifyRange:(NSRange)range;
- (nullable id<MTLTexture>)newTextureWithDescriptor:(MTLTextureDescriptor*)descriptor
                                             offset:(NSUInteger)offset
                                        bytesPerRow:(NSUInteger)bytesPerRow;
- (void)addDebugMarker:(NSString*)marker range:(NSRange)range;
- (void)removeAllDebugMarkers;
- (nullable id<MTLBuffer>)newRemoteBufferViewForDevice:(id<MTLDevice>)device;
@end

NS_ASSUME_NONNULL_END
