// Recurrent networks.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

typedef NS_ENUM(NSUInteger, MPSGraphRNNActivation) {
  MPSGraphRNNActivationNone = 0,
  MPSGraphRNNActivationRelu = 1,
  MPSGraphRNNActivationTanh = 2,
  MPSGraphRNNActivationSigmoid = 3,
};

@interface MPSGraphLSTMDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic) BOOL reverse, bidirectional, produceCell, training, forgetGateLast;
@property(readwrite, nonatomic) MPSGraphRNNActivation inputGateActivation, forgetGateActivation, cellGateActivation;
@property(readwrite, nonatomic) MPSGraphRNNActivation outputGateActivation, activation;
+ (nullable instancetype)descriptor;
@end

@interface MPSGraph (MPSGraphRNNOps)
- (NSArray<MPSGraphTensor*>*)LSTMGradientsWithSourceTensor:(MPSGraphTensor*)source
                                           recurrentWeight:(MPSGraphTensor*)recurrentWeight
                                            sourceGradient:(MPSGraphTensor*)sourceGradient
                                                    zState:(MPSGraphTensor*)zState
                                             cellOutputFwd:(MPSGraphTensor*)cellOutputFwd
                                             stateGradient:(MPSGraphTensor* _Nullable)stateGradient
                                              cellGradient:(MPSGraphTensor* _Nullable)cellGradient
                                               inputWeight:(MPSGraphTensor* _Nullable)inputWeight
                                                      bias:(MPSGraphTensor* _Nullable)bias
                                                 initState:(MPSGraphTensor* _Nullable)initState
                                                  initCell:(MPSGraphTensor* _Nullable)initCell
                                                      mask:(MPSGraphTensor* _Nullable)mask
                                                  peephole:(MPSGraphTensor* _Nullable)peephole
                                                descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                                      name:(NSString* _Nullable)name;
- (NSArray<MPSGraphTensor*>*)LSTMWithSourceTensor:(MPSGraphTensor*)source
                                  recurrentWeight:(MPSGraphTensor*)recurrentWeight
                                      inputWeight:(MPSGraphTensor* _Nullable)inputWeight
                                             bias:(MPSGraphTensor* _Nullable)bias
                                        initState:(MPSGraphTensor* _Nullable)initState
                                         initCell:(MPSGraphTensor* _Nullable)initCell
                                       descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                             name:(NSString* _Nullable)name;
@end

#pragma clang assume_nonnull end
