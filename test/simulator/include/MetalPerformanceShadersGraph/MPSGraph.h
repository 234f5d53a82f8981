// The graph: its types, tensors, operations and data; compiling, running and encoding.
#pragma once

#include <Foundation/Foundation.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#pragma clang assume_nonnull begin

typedef NS_ENUM(NSUInteger, MPSGraphTensorNamedDataLayout) {
  MPSGraphTensorNamedDataLayoutNCHW = 0,
  MPSGraphTensorNamedDataLayoutNHWC = 1,
  MPSGraphTensorNamedDataLayoutOIHW = 2,
  MPSGraphTensorNamedDataLayoutHWIO = 3,
  MPSGraphTensorNamedDataLayoutCHW = 4,
  MPSGraphTensorNamedDataLayoutHWC = 5,
  MPSGraphTensorNamedDataLayoutHW = 6,
  MPSGraphTensorNamedDataLayoutNCDHW = 7,
  MPSGraphTensorNamedDataLayoutNDHWC = 8,
  MPSGraphTensorNamedDataLayoutOIDHW = 9,
  MPSGraphTensorNamedDataLayoutDHWIO = 10,
};

typedef NS_ENUM(NSUInteger, MPSGraphPaddingStyle) {
  MPSGraphPaddingStyleExplicit = 0,
  MPSGraphPaddingStyleTF_VALID = 1,
  MPSGraphPaddingStyleTF_SAME = 2,
  MPSGraphPaddingStyleONNX_SAME_LOWER = 4,
};

typedef NS_ENUM(NSInteger, MPSGraphPaddingMode) {
  MPSGraphPaddingModeConstant = 0,
  MPSGraphPaddingModeReflect = 1,
  MPSGraphPaddingModeSymmetric = 2,
  MPSGraphPaddingModeClampToEdge = 3,
  MPSGraphPaddingModeZero = 4,
  MPSGraphPaddingModePeriodic = 5,
};

typedef NS_ENUM(NSUInteger, MPSGraphResizeMode) {
  MPSGraphResizeNearest = 0,
  MPSGraphResizeBilinear = 1,
};

typedef NS_ENUM(NSUInteger, MPSGraphResizeNearestRoundingMode) {
  MPSGraphResizeNearestRoundingModeRoundPreferCeil = 0,
  MPSGraphResizeNearestRoundingModeRoundPreferFloor = 1,
  MPSGraphResizeNearestRoundingModeCeil = 2,
  MPSGraphResizeNearestRoundingModeFloor = 3,
  MPSGraphResizeNearestRoundingModeRoundToEven = 4,
  MPSGraphResizeNearestRoundingModeRoundToOdd = 5,
};

@interface MPSGraphObject : NSObject
@end

@interface MPSGraphType : MPSGraphObject <NSCopying>
@end

@interface MPSGraphShapedType : MPSGraphType
@property(readwrite, nullable, copy, atomic) MPSShape* shape;
@property(readwrite, atomic) MPSDataType dataType;
- (instancetype)initWithShape:(MPSShape* _Nullable)shape dataType:(MPSDataType)dataType;
- (BOOL)isEqualTo:(MPSGraphShapedType* _Nullable)object;
@end

typedef NS_ENUM(uint32_t, MPSGraphDeviceType) {
  MPSGraphDeviceTypeMetal = 0,
};

@interface MPSGraphDevice : MPSGraphObject
@property(readonly, nonatomic) MPSGraphDeviceType type;
@property(readonly, nullable, nonatomic) id<MTLDevice> metalDevice;
+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)metalDevice;
@end

@class MPSGraphOperation;

@interface MPSGraphTensor : MPSGraphObject <NSCopying>
@property(readonly, nullable, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) MPSGraphOperation* operation;
- (instancetype)init NS_UNAVAILABLE;
@end

@interface MPSGraphTensorData : MPSGraphObject
@property(readonly, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) MPSGraphDevice* device;
- (instancetype)initWithDevice:(MPSGraphDevice*)device
                          data:(NSData*)data
                         shape:(MPSShape*)shape
                      dataType:(MPSDataType)dataType;
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer shape:(MPSShape*)shape dataType:(MPSDataType)dataType;
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer
                            shape:(MPSShape*)shape
                         dataType:(MPSDataType)dataType
                         rowBytes:(NSUInteger)rowBytes;
- (instancetype)initWithMPSNDArray:(MPSNDArray*)ndarray;
- (MPSNDArray*)mpsndarray;
@end

@class MPSGraph;

@interface MPSGraphOperation : MPSGraphObject <NSCopying>
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* inputTensors;
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* outputTensors;
@property(readonly, nonatomic) MPSGraph* graph;
@property(readonly, nonatomic) NSString* name;
- (instancetype)init NS_UNAVAILABLE;
@end

// The graph itself: compiling, running and encoding.

@class MPSGraphExecutable;

typedef NS_ENUM(uint64_t, MPSGraphOptions) {
  MPSGraphOptionsNone = 0,
  MPSGraphOptionsSynchronizeResults = 1,
  MPSGraphOptionsDefault = MPSGraphOptionsSynchronizeResults,
};

typedef NS_ENUM(uint64_t, MPSGraphOptimization) {
  MPSGraphOptimizationLevel0 = 0,
  MPSGraphOptimizationLevel1 = 1,
};

typedef NS_ENUM(uint64_t, MPSGraphOptimizationProfile) {
  MPSGraphOptimizationProfilePerformance = 0,
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

// A graph compiled for given feeds and targets.

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
- (NSArray<MPSGraphShapedType*>* _Nullable)getOutputTypesWithDevice:(MPSGraphDevice* _Nullable)device
                                                         inputTypes:(NSArray<MPSGraphType*>*)inputTypes
                                              compilationDescriptor:
                                                  (MPSGraphCompilationDescriptor* _Nullable)compilationDescriptor;
- (NSArray<MPSGraphTensorData*>*)runWithMTLCommandQueue:(id<MTLCommandQueue>)commandQueue
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
