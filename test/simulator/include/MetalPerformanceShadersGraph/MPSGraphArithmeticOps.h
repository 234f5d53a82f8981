// Operations on each element; reductions, products, transforms and random numbers.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraph (MPSGraphArithmeticOps)
- (MPSGraphTensor*)absoluteWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)acosWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)acoshWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)additionWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                             secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                        name:(NSString* _Nullable)name;
- (MPSGraphTensor*)asinWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)asinhWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)atan2WithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                          secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)atanWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)atanhWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)bitwiseANDWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                               secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)bitwiseNOTWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)bitwiseORWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                              secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)bitwiseXORWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                               secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)ceilWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)clampWithTensor:(MPSGraphTensor*)tensor
                    minValueTensor:(MPSGraphTensor*)minValueTensor
                    maxValueTensor:(MPSGraphTensor*)maxValueTensor
                              name:(NSString* _Nullable)name;
- (MPSGraphTensor*)complexTensorWithRealTensor:(MPSGraphTensor*)realTensor
                               imaginaryTensor:(MPSGraphTensor*)imaginaryTensor
                                          name:(NSString* _Nullable)name;
#ifdef __MAC_14_0
- (MPSGraphTensor*)conjugateWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
#endif
- (MPSGraphTensor*)cosWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)coshWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)divisionNoNaNWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                  secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                             name:(NSString* _Nullable)name;
- (MPSGraphTensor*)divisionWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                             secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                        name:(NSString* _Nullable)name;
- (MPSGraphTensor*)equalWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                          secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)erfWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)exponentBase10WithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)exponentBase2WithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)exponentWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)floorModuloWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                           name:(NSString* _Nullable)name;
- (MPSGraphTensor*)floorWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)greaterThanOrEqualToWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                         secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                    name:(NSString* _Nullable)name;
- (MPSGraphTensor*)greaterThanWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                           name:(NSString* _Nullable)name;
- (MPSGraphTensor*)identityWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)imaginaryPartOfTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)isFiniteWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)isInfiniteWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)isNaNWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)lessThanOrEqualToWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                      secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                 name:(NSString* _Nullable)name;
- (MPSGraphTensor*)lessThanWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                             secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                        name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logarithmBase10WithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logarithmBase2WithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logarithmWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logicalANDWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                               secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logicalORWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                              secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)logicalXORWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                               secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)maximumWithNaNPropagationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                              secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)maximumWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                            secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                       name:(NSString* _Nullable)name;
- (MPSGraphTensor*)minimumWithNaNPropagationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                              secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)minimumWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                            secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                       name:(NSString* _Nullable)name;
- (MPSGraphTensor*)moduloWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                           secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                      name:(NSString* _Nullable)name;
- (MPSGraphTensor*)multiplicationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                   secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                              name:(NSString* _Nullable)name;
- (MPSGraphTensor*)negativeWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)notEqualWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                             secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                        name:(NSString* _Nullable)name;
- (MPSGraphTensor*)notWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)powerWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                          secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                     name:(NSString* _Nullable)name;
#ifdef __MAC_14_0
- (MPSGraphTensor*)realPartOfTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
#endif
- (MPSGraphTensor*)reciprocalSquareRootWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reciprocalWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reverseSquareRootWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)rintWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)roundWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)selectWithPredicateTensor:(MPSGraphTensor*)predicateTensor
                         truePredicateTensor:(MPSGraphTensor*)truePredicateTensor
                        falsePredicateTensor:(MPSGraphTensor*)falsePredicateTensor
                                        name:(NSString* _Nullable)name;
- (MPSGraphTensor*)signWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)signbitWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)sinWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)sinhWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)squareRootWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)squareWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)subtractionWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                           name:(NSString* _Nullable)name;
- (MPSGraphTensor*)tanWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)tanhWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)truncateWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
@end

// Activation functions.

@interface MPSGraph (MPSGraphActivationOps)
- (MPSGraphTensor*)leakyReLUWithTensor:(MPSGraphTensor*)tensor alpha:(double)alpha name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reLUGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                       sourceTensor:(MPSGraphTensor*)sourceTensor
                                               name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reLUWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)sigmoidGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                  name:(NSString* _Nullable)name;
- (MPSGraphTensor*)sigmoidWithTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
- (MPSGraphTensor*)softMaxGradientWithIncomingGradient:(MPSGraphTensor*)incomingGradient
                                          sourceTensor:(MPSGraphTensor*)sourceTensor
                                                  axis:(NSInteger)axis
                                                  name:(NSString* _Nullable)name;
- (MPSGraphTensor*)softMaxWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;
@end

// Reductions.

@interface MPSGraph (MPSGraphReductionOps)
- (MPSGraphTensor*)reductionAndWithTensor:(MPSGraphTensor*)tensor
                                     axes:(NSArray<NSNumber*>*)axes
                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionAndWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionArgMaximumWithTensor:(MPSGraphTensor*)tensor
                                            axis:(NSInteger)axis
                                            name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionArgMinimumWithTensor:(MPSGraphTensor*)tensor
                                            axis:(NSInteger)axis
                                            name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMaximumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMaximumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axis:(NSInteger)axis
                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMaximumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMaximumWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMinimumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axes:(NSArray<NSNumber*>*)axes
                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMinimumPropagateNaNWithTensor:(MPSGraphTensor*)tensor
                                                     axis:(NSInteger)axis
                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMinimumWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionMinimumWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionOrWithTensor:(MPSGraphTensor*)tensor
                                    axes:(NSArray<NSNumber*>*)axes
                                    name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionOrWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionProductWithTensor:(MPSGraphTensor*)tensor
                                         axes:(NSArray<NSNumber*>*)axes
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionProductWithTensor:(MPSGraphTensor*)tensor
                                         axis:(NSInteger)axis
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionSumWithTensor:(MPSGraphTensor*)tensor
                                     axes:(NSArray<NSNumber*>*)axes
                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)reductionSumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;
@end

// Running sums, products and extremes.

@interface MPSGraph (MPSGraphCumulativeOps)
- (MPSGraphTensor*)cumulativeMaximumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)cumulativeMinimumWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                     exclusive:(BOOL)exclusive
                                       reverse:(BOOL)reverse
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)cumulativeProductWithTensor:(MPSGraphTensor*)tensor
                                          axis:(NSInteger)axis
                                          name:(NSString* _Nullable)name;
- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor
                                      axis:(NSInteger)axis
                                 exclusive:(BOOL)exclusive
                                   reverse:(BOOL)reverse
                                      name:(NSString* _Nullable)name;
- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor axis:(NSInteger)axis name:(NSString* _Nullable)name;
@end

// Means, variances and normalizations.

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

// Matrix products and attention.

@interface MPSGraph (MPSGraphMatrixMultiplicationOps)
- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primaryTensor
                                         secondaryTensor:(MPSGraphTensor*)secondaryTensor
                                                    name:(NSString* _Nullable)name;
#ifdef __MAC_15_0
- (MPSGraphTensor*)scaledDotProductAttentionWithQueryTensor:(MPSGraphTensor*)queryTensor
                                                  keyTensor:(MPSGraphTensor*)keyTensor
                                                valueTensor:(MPSGraphTensor*)valueTensor
                                                 maskTensor:(MPSGraphTensor* _Nullable)maskTensor
                                                      scale:(float)scale
                                                       name:(NSString* _Nullable)name;
#endif
@end

// Inverses and band matrices.

@interface MPSGraph (MPSGraphLinearAlgebraOps)
- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)numLower
                             numUpper:(NSInteger)numUpper
                                 name:(NSString* _Nullable)name;
- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                       numLowerTensor:(MPSGraphTensor*)numLowerTensor
                       numUpperTensor:(MPSGraphTensor*)numUpperTensor
                                 name:(NSString* _Nullable)name;
- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString* _Nullable)name;
@end

// Fourier transforms.

#ifdef __MAC_14_0

typedef NS_ENUM(NSUInteger, MPSGraphFFTScalingMode) {
  MPSGraphFFTScalingModeNone = 0,
  MPSGraphFFTScalingModeSize = 1,
  MPSGraphFFTScalingModeUnitary = 2,
};

// Newer than the oldest macOS that the backend runs on: there, a library must load without it.
#ifdef __APPLE__
__attribute__((weak_import))
#endif
@interface MPSGraphFFTDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic) BOOL inverse;
@property(readwrite, nonatomic) MPSGraphFFTScalingMode scalingMode;
@property(readwrite, nonatomic) BOOL roundToOddHermitean;
+ (nullable instancetype)descriptor;
@end

@interface MPSGraph (MPSGraphFourierTransformOps)
- (MPSGraphTensor*)HermiteanToRealFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString* _Nullable)name;
- (MPSGraphTensor*)fastFourierTransformWithTensor:(MPSGraphTensor*)tensor
                                             axes:(NSArray<NSNumber*>*)axes
                                       descriptor:(MPSGraphFFTDescriptor*)descriptor
                                             name:(NSString* _Nullable)name;
- (MPSGraphTensor*)realToHermiteanFFTWithTensor:(MPSGraphTensor*)tensor
                                           axes:(NSArray<NSNumber*>*)axes
                                     descriptor:(MPSGraphFFTDescriptor*)descriptor
                                           name:(NSString* _Nullable)name;
@end

#endif

// Random numbers and dropout.

typedef NS_ENUM(uint64_t, MPSGraphRandomDistribution) {
  MPSGraphRandomDistributionUniform = 0,
  MPSGraphRandomDistributionNormal = 1,
  MPSGraphRandomDistributionTruncatedNormal = 2,
};

typedef NS_ENUM(uint64_t, MPSGraphRandomNormalSamplingMethod) {
  MPSGraphRandomNormalSamplingInvCDF = 0,
  MPSGraphRandomNormalSamplingBoxMuller = 1,
};

@interface MPSGraphRandomOpDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic) MPSGraphRandomDistribution distribution;
@property(readwrite, nonatomic) MPSDataType dataType;
@property(readwrite, nonatomic) float min, max;
@property(readwrite, nonatomic) NSInteger minInteger, maxInteger;
@property(readwrite, nonatomic) float mean, standardDeviation;
@property(readwrite, nonatomic) MPSGraphRandomNormalSamplingMethod samplingMethod;
+ (nullable instancetype)descriptorWithDistribution:(MPSGraphRandomDistribution)distribution
                                           dataType:(MPSDataType)dataType;
@end

@interface MPSGraph (MPSGraphRandomOps)
- (MPSGraphTensor*)dropoutTensor:(MPSGraphTensor*)tensor rate:(double)rate name:(NSString* _Nullable)name;
- (NSArray<MPSGraphTensor*>*)randomTensorWithShape:(MPSShape*)shape
                                        descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                                       stateTensor:(MPSGraphTensor*)stateTensor
                                              name:(NSString* _Nullable)name;
@end

#pragma clang assume_nonnull end
