#pragma once

#import <Metal/MTLDefines.h>

NS_ASSUME_NONNULL_BEGIN

typedef NS_ENUM(NSUInteger, MTLMutability) {
  MTLMutabilityDefault = 0,
  MTLMutabilityMutable = 1,
  MTLMutabilityImmutable = 2,
};

typedef NS_ENUM(NSInteger, MTLShaderValidation) {
  MTLShaderValidationDefault = 0,
  MTLShaderValidationEnabled = 1,
  MTLShaderValidationDisabled = 2,
};

@interface MTLPipelineBufferDescriptor : NSObject <NSCopying>
@property(nonatomic) MTLMutability mutability;
@end

@interface MTLPipelineBufferDescriptorArray : NSObject
- (MTLPipelineBufferDescriptor*)objectAtIndexedSubscript:(NSUInteger)bufferIndex;
- (void)setObject:(nullable MTLPipelineBufferDescriptor*)buffer atIndexedSubscript:(NSUInteger)bufferIndex;
@end

NS_ASSUME_NONNULL_END
