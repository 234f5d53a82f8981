// Operations on each element; reductions, products, transforms and random numbers.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

// Methods that differ in the first word alone.
#define OF_ONE_TENSOR(word) -(MPSGraphTensor*)word##WithTensor : (MPSGraphTensor*)tensor name : (NSString*)name;
#define OF_TWO_TENSORS(word)                                                                 \
  -(MPSGraphTensor*)word##WithPrimaryTensor : (MPSGraphTensor*)primaryTensor secondaryTensor \
      : (MPSGraphTensor*)secondaryTensor name : (NSString*)name;
#define ALONG_AXIS(word) \
  -(MPSGraphTensor*)word##WithTensor : (MPSGraphTensor*)tensor axis : (NSInteger)axis name : (NSString*)name;
#define ALONG_AXIS_OR_AXES(word) \
  ALONG_AXIS(word)               \
  -(MPSGraphTensor*)word##WithTensor : (MPSGraphTensor*)tensor axes : (NSArray<NSNumber*>*)axes name : (NSString*)name;

@interface MPSGraph (MPSGraphArithmeticOps)
MPS_FOR_EACH(OF_ONE_TENSOR, absolute, acos, acosh, asin, asinh, atan, atanh, ceil, cos, cosh, erf, exponent,
             exponentBase2, floor, identity, isInfinite, isNaN, logarithm, logarithmBase10, logarithmBase2, negative,
             not, reLU, reciprocal, reciprocalSquareRoot, reverseSquareRoot, round, sigmoid, sign, signbit, sin, sinh,
             square, squareRoot, tan, tanh)
MPS_FOR_EACH(OF_TWO_TENSORS, addition, atan2, division, equal, greaterThan, greaterThanOrEqualTo, lessThan,
             lessThanOrEqualTo, logicalAND, logicalOR, logicalXOR, matrixMultiplication, maximum,
             maximumWithNaNPropagation, minimum, minimumWithNaNPropagation, multiplication, notEqual, power,
             subtraction)
MPS_FOR_EACH(ALONG_AXIS, cumulativeProduct, reductionArgMaximum, reductionArgMinimum, softMax)
MPS_FOR_EACH(ALONG_AXIS_OR_AXES, reductionAnd, reductionMaximum, reductionMaximumPropagateNaN, reductionMinimum,
             reductionMinimumPropagateNaN, reductionOr, reductionProduct, reductionSum)
- (MPSGraphTensor*)clampWithTensor:(MPSGraphTensor*)tensor
                    minValueTensor:(MPSGraphTensor*)minValue
                    maxValueTensor:(MPSGraphTensor*)maxValue
                              name:(NSString*)name;
#ifdef __MAC_14_0
- (MPSGraphTensor*)conjugateWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name;
- (MPSGraphTensor*)realPartOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name;
#endif
- (MPSGraphTensor*)selectWithPredicateTensor:(MPSGraphTensor*)predicate
                         truePredicateTensor:(MPSGraphTensor*)truePredicate
                        falsePredicateTensor:(MPSGraphTensor*)falsePredicate
                                        name:(NSString*)name;
- (MPSGraphTensor*)meanOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name;
- (MPSGraphTensor*)normalizationBetaGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                          sourceTensor:(MPSGraphTensor*)source
                                                         reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                  name:(NSString*)name;
- (MPSGraphTensor*)normalizationGammaGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                           sourceTensor:(MPSGraphTensor*)source
                                                             meanTensor:(MPSGraphTensor*)mean
                                                         varianceTensor:(MPSGraphTensor*)variance
                                                          reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                                epsilon:(float)epsilon
                                                                   name:(NSString*)name;
- (MPSGraphTensor*)normalizationGradientWithIncomingGradientTensor:(MPSGraphTensor*)gradient
                                                      sourceTensor:(MPSGraphTensor*)source
                                                        meanTensor:(MPSGraphTensor*)mean
                                                    varianceTensor:(MPSGraphTensor*)variance
                                                       gammaTensor:(MPSGraphTensor*)gamma
                                               gammaGradientTensor:(MPSGraphTensor*)gammaGradient
                                                betaGradientTensor:(MPSGraphTensor*)betaGradient
                                                     reductionAxes:(NSArray<NSNumber*>*)reductionAxes
                                                           epsilon:(float)epsilon
                                                              name:(NSString*)name;
- (MPSGraphTensor*)normalizationWithTensor:(MPSGraphTensor*)tensor
                                meanTensor:(MPSGraphTensor*)mean
                            varianceTensor:(MPSGraphTensor*)variance
                               gammaTensor:(MPSGraphTensor*)gamma
                                betaTensor:(MPSGraphTensor*)beta
                                   epsilon:(float)epsilon
                                      name:(NSString*)name;
- (MPSGraphTensor*)varianceOfTensor:(MPSGraphTensor*)tensor axes:(NSArray<NSNumber*>*)axes name:(NSString*)name;
- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)numLower
                             numUpper:(NSInteger)numUpper
                                 name:(NSString*)name;
- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                       numLowerTensor:(MPSGraphTensor*)numLower
                       numUpperTensor:(MPSGraphTensor*)numUpper
                                 name:(NSString*)name;
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
+ (instancetype)descriptor;
@end

#define FOURIER_TRANSFORM(word)                                                                            \
  -(MPSGraphTensor*)word##WithTensor : (MPSGraphTensor*)tensor axes : (NSArray<NSNumber*>*)axes descriptor \
      : (MPSGraphFFTDescriptor*)descriptor name : (NSString*)name;

@interface MPSGraph (MPSGraphFourierTransformOps)
MPS_FOR_EACH(FOURIER_TRANSFORM, HermiteanToRealFFT, fastFourierTransform, realToHermiteanFFT)
@end

#endif

// Random numbers and dropout.

typedef NS_ENUM(uint64_t, MPSGraphRandomDistribution) {
  MPSGraphRandomDistributionUniform = 0,
  MPSGraphRandomDistributionNormal = 1,
};

@interface MPSGraphRandomOpDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic) MPSGraphRandomDistribution distribution;
@property(readwrite, nonatomic) MPSDataType dataType;
@property(readwrite, nonatomic) float min, max;
@property(readwrite, nonatomic) NSInteger minInteger, maxInteger;
@property(readwrite, nonatomic) float mean, standardDeviation;
+ (instancetype)descriptorWithDistribution:(MPSGraphRandomDistribution)distribution dataType:(MPSDataType)dataType;
@end

@interface MPSGraph (MPSGraphRandomOps)
- (MPSGraphTensor*)dropoutTensor:(MPSGraphTensor*)tensor rate:(double)rate name:(NSString*)name;
- (NSArray<MPSGraphTensor*>*)randomTensorWithShape:(MPSShape*)shape
                                        descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                                       stateTensor:(MPSGraphTensor*)state
                                              name:(NSString*)name;
@end
