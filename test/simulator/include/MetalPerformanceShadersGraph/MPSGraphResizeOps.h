// Resizing of images.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphResizeOps)

- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                       centerResult:(BOOL)centerResult
                                       alignCorners:(BOOL)alignCorners
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                  scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                               centerResult:(BOOL)centerResult
                               alignCorners:(BOOL)alignCorners
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                          scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                      centerResult:(BOOL)centerResult
                                      alignCorners:(BOOL)alignCorners
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                                 scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                              centerResult:(BOOL)centerResult
                              alignCorners:(BOOL)alignCorners
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString* _Nullable)name;

- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                         scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
