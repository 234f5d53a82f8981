// Means, variances and normalizations.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphNormalizationOps)

- (MPSGraphTensor*)meanOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString* _Nullable)name;

- (MPSGraphTensor*)normalizationBetaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                         reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                  name:(NSString* _Nullable)name;

- (MPSGraphTensor*)normalizationGammaGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                           sourceTensor:(MPSGraphTensor*)sourceTensor
                                                             meanTensor:(MPSGraphTensor*)meanTensor
                                                         varianceTensor:(MPSGraphTensor*)varianceTensor
                                                          reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                epsilon:(float)epsilon
                                                                   name:(NSString* _Nullable)name;

- (MPSGraphTensor*)normalizationGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                      sourceTensor:(MPSGraphTensor*)sourceTensor
                                                        meanTensor:(MPSGraphTensor*)meanTensor
                                                    varianceTensor:(MPSGraphTensor*)varianceTensor
                                                       gammaTensor:(MPSGraphTensor* _Nullable)gammaTensor
                                               gammaGradientTensor:(MPSGraphTensor* _Nullable)gammaGradientTensor
                                                betaGradientTensor:(MPSGraphTensor* _Nullable)betaGradientTensor
                                                     reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                           epsilon:(float)epsilon
                                                              name:(NSString* _Nullable)name;

- (MPSGraphTensor*)normalizationWithTensor:(MPSGraphTensor*)tensor
                                meanTensor:(MPSGraphTensor*)meanTensor
                            varianceTensor:(MPSGraphTensor*)varianceTensor
                               gammaTensor:(MPSGraphTensor* _Nullable)gammaTensor
                                betaTensor:(MPSGraphTensor* _Nullable)betaTensor
                                   epsilon:(float)epsilon
                                      name:(NSString* _Nullable)name;

- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor
                               axes:(NSArray<NSNumber*>*)axes
                               name:(NSString* _Nullable)name;

- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor
                         meanTensor:(MPSGraphTensor*)meanTensor
                               axes:(NSArray<NSNumber*>*)axes
                               name:(NSString* _Nullable)name;

@end

#pragma clang assume_nonnull end
