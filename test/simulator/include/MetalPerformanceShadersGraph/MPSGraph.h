// The graph: its types, tensors, operations and data; compiling, running and encoding.
#pragma once

#include <Foundation/Foundation.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

// Expands the macro for each of up to 256 arguments.
#define MPS_FOR_EACH(macro, ...) MPS_EXPAND(MPS_FOR_EACH_STEP(macro, __VA_ARGS__))
#define MPS_FOR_EACH_STEP(macro, first, ...) \
  macro(first) __VA_OPT__(MPS_FOR_EACH_AGAIN MPS_NO_ARGUMENTS(macro, __VA_ARGS__))
#define MPS_FOR_EACH_AGAIN() MPS_FOR_EACH_STEP
#define MPS_NO_ARGUMENTS ()
#define MPS_EXPAND(...) MPS_EXPAND_64(MPS_EXPAND_64(MPS_EXPAND_64(MPS_EXPAND_64(__VA_ARGS__))))
#define MPS_EXPAND_64(...) MPS_EXPAND_16(MPS_EXPAND_16(MPS_EXPAND_16(MPS_EXPAND_16(__VA_ARGS__))))
#define MPS_EXPAND_16(...) MPS_EXPAND_4(MPS_EXPAND_4(MPS_EXPAND_4(MPS_EXPAND_4(__VA_ARGS__))))
#define MPS_EXPAND_4(...) __VA_ARGS__

typedef NS_ENUM(NSUInteger, MPSGraphTensorNamedDataLayout) {
  MPSGraphTensorNamedDataLayoutNCHW = 0,
  MPSGraphTensorNamedDataLayoutNHWC = 1,
  MPSGraphTensorNamedDataLayoutOIHW = 2,
  MPSGraphTensorNamedDataLayoutCHW = 4,
  MPSGraphTensorNamedDataLayoutNCDHW = 7,
  MPSGraphTensorNamedDataLayoutOIDHW = 9,
};

typedef NS_ENUM(NSUInteger, MPSGraphPaddingStyle) {
  MPSGraphPaddingStyleExplicit = 0,
};

typedef NS_ENUM(NSInteger, MPSGraphPaddingMode) {
  MPSGraphPaddingModeConstant = 0,
  MPSGraphPaddingModeReflect = 1,
  MPSGraphPaddingModeSymmetric = 2,
  MPSGraphPaddingModeClampToEdge = 3,
  MPSGraphPaddingModeZero = 4,
};

typedef NS_ENUM(NSUInteger, MPSGraphResizeMode) {
  MPSGraphResizeNearest = 0,
  MPSGraphResizeBilinear = 1,
};

typedef NS_ENUM(NSUInteger, MPSGraphResizeNearestRoundingMode) {
  MPSGraphResizeNearestRoundingModeRoundPreferCeil = 0,
  MPSGraphResizeNearestRoundingModeFloor = 3,
  MPSGraphResizeNearestRoundingModeRoundToEven = 4,
};

@interface MPSGraphObject : NSObject
@end

@interface MPSGraphType : MPSGraphObject<NSCopying>
@end

@interface MPSGraphShapedType : MPSGraphType
@property(readwrite, copy, atomic) MPSShape* shape;
@property(readwrite, atomic) MPSDataType dataType;
- (instancetype)initWithShape:(MPSShape*)shape dataType:(MPSDataType)dataType;
@end

@interface MPSGraphDevice : MPSGraphObject
+ (instancetype)deviceWithMTLDevice:(id<MTLDevice>)metalDevice;
@end

@interface MPSGraphTensor : MPSGraphObject<NSCopying>
@property(readonly, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
- (instancetype)init NS_UNAVAILABLE;
@end

@interface MPSGraphTensorData : MPSGraphObject
@property(readonly, copy, nonatomic) MPSShape* shape;
@property(readonly, nonatomic) MPSDataType dataType;
- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer shape:(MPSShape*)shape dataType:(MPSDataType)dataType;
- (instancetype)initWithMPSNDArray:(MPSNDArray*)ndarray;
- (MPSNDArray*)mpsndarray;
@end

@interface MPSGraphOperation : MPSGraphObject<NSCopying>
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

typedef NSDictionary<MPSGraphTensor*, MPSGraphTensorData*> MPSGraphTensorDataDictionary;
typedef NSDictionary<MPSGraphTensor*, MPSGraphShapedType*> MPSGraphTensorShapedTypeDictionary;

@interface MPSGraphCompilationDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, atomic) MPSGraphOptimization optimizationLevel;
@end

@interface MPSGraphExecutionDescriptor : MPSGraphObject
@property(readwrite, atomic, copy) MPSGraphCompilationDescriptor* compilationDescriptor;
@end

@interface MPSGraph : MPSGraphObject
@property(readwrite, atomic) MPSGraphOptions options;
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* placeholderTensors;
+ (instancetype)new;
- (instancetype)init;
@end

@interface MPSGraph (MPSGraphRunning)
- (MPSGraphExecutable*)compileWithDevice:(MPSGraphDevice*)device
                                   feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                           targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                        targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
                   compilationDescriptor:(MPSGraphCompilationDescriptor*)compilationDescriptor;
- (void)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                        feeds:(MPSGraphTensorDataDictionary*)feeds
             targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
            resultsDictionary:(MPSGraphTensorDataDictionary*)resultsDictionary
          executionDescriptor:(MPSGraphExecutionDescriptor*)executionDescriptor;
@end

// A graph compiled for given feeds and targets.

@interface MPSGraphExecutableExecutionDescriptor : MPSGraphObject
@end

@interface MPSGraphExecutable : MPSGraphObject
@property(readwrite, atomic) MPSGraphOptions options;
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* feedTensors;
@property(readonly, nonatomic) NSArray<MPSGraphTensor*>* targetTensors;
- (NSArray<MPSGraphTensorData*>*)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                                           inputsArray:(NSArray<MPSGraphTensorData*>*)inputsArray
                                          resultsArray:(NSArray<MPSGraphTensorData*>*)resultsArray
                                   executionDescriptor:(MPSGraphExecutableExecutionDescriptor*)executionDescriptor;
@end
