// A graph compiled for given feeds and targets.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

typedef void (^MPSGraphExecutableCompletionHandler)(NSArray<MPSGraphTensorData*>* results, NSError* _Nullable error);
typedef void (^MPSGraphExecutableScheduledHandler)(NSArray<MPSGraphTensorData*>* results, NSError* _Nullable error);

@interface MPSGraphExecutableExecutionDescriptor : MPSGraphObject <NSCopying>

@property(readwrite, atomic, copy) MPSGraphExecutableScheduledHandler scheduledHandler;
@property(readwrite, atomic, copy) MPSGraphExecutableCompletionHandler completionHandler;
@property(readwrite, atomic) BOOL waitUntilCompleted;

@end

@interface MPSGraphExecutable : MPSGraphObject

@property(readwrite, atomic) MPSGraphOptions options;
@property(readonly, nullable, nonatomic) NSArray<MPSGraphTensor*>* feedTensors;
@property(readonly, nullable, nonatomic) NSArray<MPSGraphTensor*>* targetTensors;

- (void)specializeWithDevice:(MPSGraphDevice* _Nullable)device
                  inputTypes:(NSArray<MPSGraphType*>*)inputTypes
       compilationDescriptor:(MPSGraphCompilationDescriptor* _Nullable)compilationDescriptor;

- (NSArray<MPSGraphShapedType*>* _Nullable)getOutputTypesWithDevice:(MPSGraphDevice* _Nullable)device
                                                         inputTypes:(NSArray<MPSGraphType*>*)inputTypes
                                              compilationDescriptor:
                                                  (MPSGraphCompilationDescriptor* _Nullable)compilationDescriptor;

- (NSArray<MPSGraphTensorData*>*)runWithMTLCommandQueue:(id<MTLCommandQueue>)commandQueue
                                            inputsArray:(NSArray<MPSGraphTensorData*>*)inputsArray
                                           resultsArray:(NSArray<MPSGraphTensorData*>* _Nullable)resultsArray
                                    executionDescriptor:
                                        (MPSGraphExecutableExecutionDescriptor* _Nullable)executionDescriptor;

- (NSArray<MPSGraphTensorData*>*)runAsyncWithMTLCommandQueue:(id<MTLCommandQueue>)commandQueue
                                                 inputsArray:(NSArray<MPSGraphTensorData*>*)inputsArray
                                                resultsArray:(NSArray<MPSGraphTensorData*>* _Nullable)resultsArray
                                         executionDescriptor:
                                             (MPSGraphExecutableExecutionDescriptor* _Nullable)executionDescriptor;

- (NSArray<MPSGraphTensorData*>*)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                                           inputsArray:(NSArray<MPSGraphTensorData*>*)inputsArray
                                          resultsArray:(NSArray<MPSGraphTensorData*>* _Nullable)resultsArray
                                   executionDescriptor:
                                       (MPSGraphExecutableExecutionDescriptor* _Nullable)executionDescriptor;

@end

#pragma clang assume_nonnull end
