#import "metal/compute_encoder.h"

#include "support/not_simulated.h"

// The protocol of the class's main interface declares these methods already.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

@implementation SimulatedComputeCommandEncoder (Refused)

NOT_SIMULATED(- (void)setBuffer:(id<MTLBuffer>)buffer
                         offset:(NSUInteger)offset
                attributeStride:(NSUInteger)stride
                        atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setBuffers:(const id<MTLBuffer>[])buffers
                         offsets:(const NSUInteger[])offsets
                attributeStrides:(const NSUInteger[])strides
                       withRange:(NSRange)range)
NOT_SIMULATED(- (void)setBufferOffset:(NSUInteger)offset attributeStride:(NSUInteger)stride atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setBytes:(const void*)bytes
                        length:(NSUInteger)length
               attributeStride:(NSUInteger)stride
                       atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setVisibleFunctionTable:(id<MTLVisibleFunctionTable>)visibleFunctionTable
                                atBufferIndex:(NSUInteger)bufferIndex)
NOT_SIMULATED(- (void)setVisibleFunctionTables:(const id<MTLVisibleFunctionTable>[])tables
                               withBufferRange:(NSRange)range)
NOT_SIMULATED(- (void)setIntersectionFunctionTable:(id<MTLIntersectionFunctionTable>)intersectionFunctionTable
                                     atBufferIndex:(NSUInteger)bufferIndex)
NOT_SIMULATED(- (void)setIntersectionFunctionTables:(const id<MTLIntersectionFunctionTable>[])tables
                                    withBufferRange:(NSRange)range)
NOT_SIMULATED(- (void)setAccelerationStructure:(id<MTLAccelerationStructure>)accelerationStructure
                                 atBufferIndex:(NSUInteger)bufferIndex)
NOT_SIMULATED(- (void)setTexture:(id<MTLTexture>)texture atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setTextures:(const id<MTLTexture>[])textures withRange:(NSRange)range)
NOT_SIMULATED(- (void)setSamplerState:(id<MTLSamplerState>)sampler atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers withRange:(NSRange)range)
NOT_SIMULATED(- (void)setSamplerState:(id<MTLSamplerState>)sampler
                          lodMinClamp:(float)lodMinClamp
                          lodMaxClamp:(float)lodMaxClamp
                              atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setSamplerStates:(const id<MTLSamplerState>[])samplers
                          lodMinClamps:(const float[])lodMinClamps
                          lodMaxClamps:(const float[])lodMaxClamps
                             withRange:(NSRange)range)
NOT_SIMULATED(- (void)setImageblockWidth:(NSUInteger)width height:(NSUInteger)height)
NOT_SIMULATED(- (void)setStageInRegion:(MTLRegion)region)
NOT_SIMULATED(- (void)setStageInRegionWithIndirectBuffer:(id<MTLBuffer>)indirectBuffer
                                    indirectBufferOffset:(NSUInteger)indirectBufferOffset)
NOT_SIMULATED(- (void)sampleCountersInBuffer:(id<MTLCounterSampleBuffer>)sampleBuffer
                               atSampleIndex:(NSUInteger)sampleIndex
                                 withBarrier:(BOOL)barrier)

@end
