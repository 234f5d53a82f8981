// Operations on each element.
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

#pragma clang assume_nonnull end
