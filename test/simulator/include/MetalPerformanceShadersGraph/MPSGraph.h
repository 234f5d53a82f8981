// The graph itself: compiling, running and encoding.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraphCore.h>
#include <MetalPerformanceShadersGraph/MPSGraphDevice.h>
#include <MetalPerformanceShadersGraph/MPSGraphOperation.h>
#include <MetalPerformanceShadersGraph/MPSGraphTensor.h>
#include <MetalPerformanceShadersGraph/MPSGraphTensorData.h>

#pragma clang assume_nonnull begin

@class MPSGraphExecutable;

typedef NS_ENUM(uint64_t, MPSGraphOptions) {
  MPSGraphOptionsNone = 0,
  MPSGraphOptionsSynchronizeResults = 1,
  MPSGraphOptionsVerbose = 2,
  MPSGraphOptionsDefault = MPSGraphOptionsSynchronizeResults,
};

typedef NS_ENUM(uint64_t, MPSGraphOptimization) {
  MPSGraphOptimizationLevel0 = 0,
  MPSGraphOptimizationLevel1 = 1,
};

typedef NS_ENUM(uint64_t, MPSGraphOptimizationProfile) {
  MPSGraphOptimizationProfilePerformance = 0,
  MPSGraphOptimizationProfilePowerEfficiency = 1,
};

typedef NS_ENUM(uint64_t, MPSGraphExecutionStage) {
  MPSGraphExecutionStageCompleted = 0,
};

typedef NSDictionary<MPSGraphTensor*, MPSGraphTensorData*> MPSGraphTensorDataDictionary;
typedef NSDictionary<MPSGraphTensor*, MPSGraphShapedType*> MPSGraphTensorShapedTypeDictionary;

typedef void (^MPSGraphCompletionHandler)(MPSGraphTensorDataDictionary* resultsDictionary, NSError* _Nullable error);
typedef void (^MPSGraphScheduledHandler)(MPSGraphTensorDataDictionary* resultsDictionary, NSError* _Nullable error);
typedef void (^MPSGraphCompilationCompletionHandler)(MPSGraphExecutable* executable, NSError* _Nullable error);

#ifdef __MAC_14_1
typedef NSDictionary<NSString*, MPSGraphExecutable*> MPSGraphCallableMap;
#endif

@interface MPSGraphCompilationDescriptor : MPSGraphObject <NSCopying>

- (void)disableTypeInference;
@property(readwrite, atomic) MPSGraphOptimization optimizationLevel;
@property(readwrite, atomic) MPSGraphOptimizationProfile optimizationProfile;
@property(readwrite, atomic) BOOL waitForCompilationCompletion;
@property(readwrite, atomic, copy) MPSGraphCompilationCompletionHandler compilationCompletionHandler;
#ifdef __MAC_14_1
@property(readwrite, atomic, retain, nullable) MPSGraphCallableMap* callables; // macOS 14.1
#endif

@end

@interface MPSGraphExecutionDescriptor : MPSGraphObject

@property(readwrite, atomic, copy) MPSGraphScheduledHandler scheduledHandler;
@property(readwrite, atomic, copy) MPSGraphCompletionHandler completionHandler;
@property(readwrite, atomic) BOOL waitUntilCompleted;
@property(readwrite, atomic, copy, nullable) MPSGraphCompilationDescriptor* compilationDescriptor;

@end

@interface MPSGraph : MPSGraphObject

@property(readwrite, atomic) MPSGraphOptions options;
@property(readonly, nonnull, nonatomic) NSArray<MPSGraphTensor*>* placeholderTensors;

+ (instancetype)new;
- (instancetype)init;

@end

@interface MPSGraph (MPSGraphRunning)

- (MPSGraphExecutable*)compileWithDevice:(MPSGraphDevice* _Nullable)device
                                   feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                           targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                        targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations
                   compilationDescriptor:(MPSGraphCompilationDescriptor* _Nullable)compilationDescriptor;

- (MPSGraphTensorDataDictionary*)runWithFeeds:(MPSGraphTensorDataDictionary*)feeds
                                targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                             targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations;

- (MPSGraphTensorDataDictionary*)runWithMTLCommandQueue:(id<MTLCommandQueue>)commandQueue
                                                  feeds:(MPSGraphTensorDataDictionary*)feeds
                                          targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                                       targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations;

- (void)runWithMTLCommandQueue:(id<MTLCommandQueue>)commandQueue
                         feeds:(MPSGraphTensorDataDictionary*)feeds
              targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations
             resultsDictionary:(MPSGraphTensorDataDictionary*)resultsDictionary;

- (MPSGraphTensorDataDictionary*)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                                                 feeds:(MPSGraphTensorDataDictionary*)feeds
                                         targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                                      targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations
                                   executionDescriptor:(MPSGraphExecutionDescriptor* _Nullable)executionDescriptor;

- (void)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                        feeds:(MPSGraphTensorDataDictionary*)feeds
             targetOperations:(NSArray<MPSGraphOperation*>* _Nullable)targetOperations
            resultsDictionary:(MPSGraphTensorDataDictionary*)resultsDictionary
          executionDescriptor:(MPSGraphExecutionDescriptor* _Nullable)executionDescriptor;

@end

#pragma clang assume_nonnull end
