// Enumerations and base classes that every part of the graph API uses.
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
  MPSGraphPaddingStyleExplicitOffset = 3,
  MPSGraphPaddingStyleONNX_SAME_LOWER = 4,
};

typedef NS_ENUM(NSInteger, MPSGraphPaddingMode) {
  MPSGraphPaddingModeConstant = 0,
  MPSGraphPaddingModeReflect = 1,
  MPSGraphPaddingModeSymmetric = 2,
  MPSGraphPaddingModeClampToEdge = 3,
  MPSGraphPaddingModeZero = 4,
  MPSGraphPaddingModePeriodic = 5,
  MPSGraphPaddingModeAntiPeriodic = 6,
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

#pragma clang assume_nonnull end
