#import "metal/compute_encoder.h"

#include "support/counters.h"
#include "support/error.h"

// The protocol of the class's main interface declares these methods already.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

@implementation SimulatedComputeCommandEncoder (Refused)

- (void)setBuffer:(id<MTLBuffer>)buffer
             offset:(NSUInteger)offset
    attributeStride:(NSUInteger)stride
            atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers
             offsets:(const NSUInteger[])offsets
    attributeStrides:(const NSUInteger[])strides
           withRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setBufferOffset:(NSUInteger)offset
        attributeStride:(NSUInteger)stride
                atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setBytes:(const void*)bytes
             length:(NSUInteger)length
    attributeStride:(NSUInteger)stride
            atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setVisibleFunctionTable:
            (id<MTLVisibleFunctionTable>)visibleFunctionTable
                  atBufferIndex:(NSUInteger)bufferIndex {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setVisibleFunctionTables:
            (const id<MTLVisibleFunctionTable>[])tables
                 withBufferRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setIntersectionFunctionTable:
            (id<MTLIntersectionFunctionTable>)intersectionFunctionTable
                       atBufferIndex:(NSUInteger)bufferIndex {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setIntersectionFunctionTables:
            (const id<MTLIntersectionFunctionTable>[])tables
                      withBufferRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setAccelerationStructure:
            (id<MTLAccelerationStructure>)accelerationStructure
                   atBufferIndex:(NSUInteger)bufferIndex {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setTexture:(id<MTLTexture>)texture atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setTextures:(const id<MTLTexture>[])textures
          withRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setSamplerState:(id<MTLSamplerState>)sampler
                atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers
               withRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setSamplerState:(id<MTLSamplerState>)sampler
            lodMinClamp:(float)lodMinClamp
            lodMaxClamp:(float)lodMaxClamp
                atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers
            lodMinClamps:(const float[])lodMinClamps
            lodMaxClamps:(const float[])lodMaxClamps
               withRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setImageblockWidth:(NSUInteger)width height:(NSUInteger)height {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setStageInRegion:(MTLRegion)region {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setStageInRegionWithIndirectBuffer:(id<MTLBuffer>)indirectBuffer
                      indirectBufferOffset:(NSUInteger)indirectBufferOffset {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)sampleCountersInBuffer:(id<MTLCounterSampleBuffer>)sampleBuffer
                 atSampleIndex:(NSUInteger)sampleIndex
                   withBarrier:(BOOL)barrier {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

@end
