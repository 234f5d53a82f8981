// Sampling at the points of a grid.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphSampleGridOps)

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                          nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                constantValue:(double)constantValue
                                         name:(NSString* _Nullable)name;

- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                                 samplingMode:(MPSGraphResizeMode)samplingMode
                                constantValue:(double)constantValue
                                         name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
