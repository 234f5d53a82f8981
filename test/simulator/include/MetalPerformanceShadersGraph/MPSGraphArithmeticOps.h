// Operations on each element; reductions, products, transforms and random numbers.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

// Methods that differ in the first word alone.
#define OF_ONE_TENSOR(method) -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor name : (NSString* _Nullable)name
#define OF_TWO_TENSORS(method)                                                           \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)primaryTensor secondaryTensor              \
      : (MPSGraphTensor*)secondaryTensor name : (NSString* _Nullable)name
#define ALONG_AXIS(method) \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axis : (NSInteger)axis name : (NSString* _Nullable)name
#define ALONG_AXES(method) \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor axes : (NSArray<NSNumber*>*)axes name : (NSString* _Nullable)name

@interface MPSGraph (MPSGraphArithmeticOps)
OF_ONE_TENSOR(absoluteWithTensor);
OF_ONE_TENSOR(acosWithTensor);
OF_ONE_TENSOR(acoshWithTensor);
OF_TWO_TENSORS(additionWithPrimaryTensor);
OF_ONE_TENSOR(asinWithTensor);
OF_ONE_TENSOR(asinhWithTensor);
OF_TWO_TENSORS(atan2WithPrimaryTensor);
OF_ONE_TENSOR(atanWithTensor);
OF_ONE_TENSOR(atanhWithTensor);
OF_TWO_TENSORS(bitwiseANDWithPrimaryTensor);
OF_ONE_TENSOR(bitwiseNOTWithTensor);
OF_TWO_TENSORS(bitwiseORWithPrimaryTensor);
OF_TWO_TENSORS(bitwiseXORWithPrimaryTensor);
OF_ONE_TENSOR(ceilWithTensor);
- (MPSGraphTensor*)clampWithTensor:(MPSGraphTensor*)tensor
                    minValueTensor:(MPSGraphTensor*)minValueTensor
                    maxValueTensor:(MPSGraphTensor*)maxValueTensor
                              name:(NSString* _Nullable)name;
#ifdef __MAC_14_0
OF_ONE_TENSOR(conjugateWithTensor);
#endif
OF_ONE_TENSOR(cosWithTensor);
OF_ONE_TENSOR(coshWithTensor);
OF_TWO_TENSORS(divisionNoNaNWithPrimaryTensor);
OF_TWO_TENSORS(divisionWithPrimaryTensor);
OF_TWO_TENSORS(equalWithPrimaryTensor);
OF_ONE_TENSOR(erfWithTensor);
OF_ONE_TENSOR(exponentBase10WithTensor);
OF_ONE_TENSOR(exponentBase2WithTensor);
OF_ONE_TENSOR(exponentWithTensor);
OF_TWO_TENSORS(floorModuloWithPrimaryTensor);
OF_ONE_TENSOR(floorWithTensor);
OF_TWO_TENSORS(greaterThanOrEqualToWithPrimaryTensor);
OF_TWO_TENSORS(greaterThanWithPrimaryTensor);
OF_ONE_TENSOR(identityWithTensor);
OF_ONE_TENSOR(imaginaryPartOfTensor);
OF_ONE_TENSOR(isFiniteWithTensor);
OF_ONE_TENSOR(isInfiniteWithTensor);
OF_ONE_TENSOR(isNaNWithTensor);
OF_TWO_TENSORS(lessThanOrEqualToWithPrimaryTensor);
OF_TWO_TENSORS(lessThanWithPrimaryTensor);
OF_ONE_TENSOR(logarithmBase10WithTensor);
OF_ONE_TENSOR(logarithmBase2WithTensor);
OF_ONE_TENSOR(logarithmWithTensor);
OF_TWO_TENSORS(logicalANDWithPrimaryTensor);
OF_TWO_TENSORS(logicalORWithPrimaryTensor);
OF_TWO_TENSORS(logicalXORWithPrimaryTensor);
OF_TWO_TENSORS(maximumWithNaNPropagationWithPrimaryTensor);
OF_TWO_TENSORS(maximumWithPrimaryTensor);
OF_TWO_TENSORS(minimumWithNaNPropagationWithPrimaryTensor);
OF_TWO_TENSORS(minimumWithPrimaryTensor);
OF_TWO_TENSORS(moduloWithPrimaryTensor);
OF_TWO_TENSORS(multiplicationWithPrimaryTensor);
OF_ONE_TENSOR(negativeWithTensor);
OF_TWO_TENSORS(notEqualWithPrimaryTensor);
OF_ONE_TENSOR(notWithTensor);
OF_TWO_TENSORS(powerWithPrimaryTensor);
#ifdef __MAC_14_0
OF_ONE_TENSOR(realPartOfTensor);
#endif
OF_ONE_TENSOR(reciprocalSquareRootWithTensor);
OF_ONE_TENSOR(reciprocalWithTensor);
OF_ONE_TENSOR(reverseSquareRootWithTensor);
OF_ONE_TENSOR(rintWithTensor);
OF_ONE_TENSOR(roundWithTensor);
- (MPSGraphTensor*)selectWithPredicateTensor:(MPSGraphTensor*)predicateTensor
                         truePredicateTensor:(MPSGraphTensor*)truePredicateTensor
                        falsePredicateTensor:(MPSGraphTensor*)falsePredicateTensor
                                        name:(NSString* _Nullable)name;
OF_ONE_TENSOR(signWithTensor);
OF_ONE_TENSOR(signbitWithTensor);
OF_ONE_TENSOR(sinWithTensor);
OF_ONE_TENSOR(sinhWithTensor);
OF_ONE_TENSOR(squareRootWithTensor);
OF_ONE_TENSOR(squareWithTensor);
OF_TWO_TENSORS(subtractionWithPrimaryTensor);
OF_ONE_TENSOR(tanWithTensor);
OF_ONE_TENSOR(tanhWithTensor);
OF_ONE_TENSOR(truncateWithTensor);
@end

// Activation functions.

@interface MPSGraph (MPSGraphActivationOps)
OF_ONE_TENSOR(reLUWithTensor);
OF_ONE_TENSOR(sigmoidWithTensor);
ALONG_AXIS(softMaxWithTensor);
@end

// Reductions.

@interface MPSGraph (MPSGraphReductionOps)
ALONG_AXES(reductionAndWithTensor);
ALONG_AXIS(reductionAndWithTensor);
ALONG_AXIS(reductionArgMaximumWithTensor);
ALONG_AXIS(reductionArgMinimumWithTensor);
ALONG_AXES(reductionMaximumPropagateNaNWithTensor);
ALONG_AXIS(reductionMaximumPropagateNaNWithTensor);
ALONG_AXES(reductionMaximumWithTensor);
ALONG_AXIS(reductionMaximumWithTensor);
ALONG_AXES(reductionMinimumPropagateNaNWithTensor);
ALONG_AXIS(reductionMinimumPropagateNaNWithTensor);
ALONG_AXES(reductionMinimumWithTensor);
ALONG_AXIS(reductionMinimumWithTensor);
ALONG_AXES(reductionOrWithTensor);
ALONG_AXIS(reductionOrWithTensor);
ALONG_AXES(reductionProductWithTensor);
ALONG_AXIS(reductionProductWithTensor);
ALONG_AXES(reductionSumWithTensor);
ALONG_AXIS(reductionSumWithTensor);
@end

// Running sums, products and extremes.

@interface MPSGraph (MPSGraphCumulativeOps)
ALONG_AXIS(cumulativeMaximumWithTensor);
ALONG_AXIS(cumulativeMinimumWithTensor);
ALONG_AXIS(cumulativeProductWithTensor);
- (MPSGraphTensor*)cumulativeSumWithTensor:(MPSGraphTensor*)tensor
                                      axis:(NSInteger)axis
                                 exclusive:(BOOL)exclusive
                                   reverse:(BOOL)reverse
                                      name:(NSString* _Nullable)name;
ALONG_AXIS(cumulativeSumWithTensor);
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
OF_TWO_TENSORS(matrixMultiplicationWithPrimaryTensor);
#ifdef __MAC_15_0
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
OF_ONE_TENSOR(inverseOfTensor);
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

#undef OF_ONE_TENSOR
#undef OF_TWO_TENSORS
#undef ALONG_AXIS
#undef ALONG_AXES

#pragma clang assume_nonnull end
