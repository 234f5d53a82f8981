// Activation functions.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

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

#pragma clang assume_nonnull end
