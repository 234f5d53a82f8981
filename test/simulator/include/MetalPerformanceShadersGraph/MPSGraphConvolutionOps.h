// Operations with windows over space, and on images.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

@interface MPSGraphConvolution2DOpDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic) NSUInteger strideInX, strideInY, dilationRateInX, dilationRateInY, paddingLeft;
@property(readwrite, nonatomic) NSUInteger paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout, weightsLayout;
@property(readwrite, nonatomic) NSUInteger groups;
@end

@interface MPSGraph (MPSGraphConvolutionOps)
- (MPSGraphTensor*)convolution2DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                         weightsTensor:(MPSGraphTensor*)weightsTensor
                                                           outputShape:(MPSShape*)outputShape
                                          forwardConvolutionDescriptor:
                                              (MPSGraphConvolution2DOpDescriptor*)forwardConvolutionDescriptor
                                                                  name:(NSString* _Nullable)name;
- (MPSGraphTensor*)convolution2DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                                              outputShape:(MPSShape*)outputShape
                                             forwardConvolutionDescriptor:
                                                 (MPSGraphConvolution2DOpDescriptor*)forwardConvolutionDescriptor
                                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)convolution2DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weightsTensor
                                      descriptor:(MPSGraphConvolution2DOpDescriptor*)descriptor
                                            name:(NSString* _Nullable)name;
@end

// Convolutions in three dimensions.

@interface MPSGraphConvolution3DOpDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic) NSUInteger strideInX, strideInY, strideInZ, dilationRateInX, dilationRateInY;
@property(readwrite, nonatomic) NSUInteger dilationRateInZ, paddingLeft, paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) NSUInteger paddingFront, paddingBack;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout, weightsLayout;
@property(readwrite, nonatomic) NSUInteger groups;
@end

@interface MPSGraph (MPSGraphConvolution3DOps)
- (MPSGraphTensor*)convolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                         weightsTensor:(MPSGraphTensor*)weightsTensor
                                                           outputShape:(MPSShape*)outputShape
                                          forwardConvolutionDescriptor:
                                              (MPSGraphConvolution3DOpDescriptor*)forwardConvolutionDescriptor
                                                                  name:(NSString* _Nullable)name;
- (MPSGraphTensor*)convolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                                              outputShape:(MPSShape*)outputShape
                                             forwardConvolutionDescriptor:
                                                 (MPSGraphConvolution3DOpDescriptor*)forwardConvolutionDescriptor
                                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)convolution3DWithSourceTensor:(MPSGraphTensor*)source
                                   weightsTensor:(MPSGraphTensor*)weightsTensor
                                      descriptor:(MPSGraphConvolution3DOpDescriptor*)descriptor
                                            name:(NSString* _Nullable)name;
@end

// Depthwise convolutions.

@interface MPSGraphDepthwiseConvolution3DOpDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* strides;
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* dilationRates;
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* paddingValues;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) NSInteger channelDimensionIndex;
@end

@interface MPSGraph (MPSGraphDepthwiseConvolutionOps)
- (MPSGraphTensor*)
    depthwiseConvolution3DDataGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                   weightsTensor:(MPSGraphTensor*)weightsTensor
                                                     outputShape:(MPSShape*)outputShape
                                                      descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                            name:(NSString* _Nullable)name;
- (MPSGraphTensor*)
    depthwiseConvolution3DWeightsGradientWithIncomingGradientTensor:(MPSGraphTensor*)incomingGradient
                                                       sourceTensor:(MPSGraphTensor*)sourceTensor
                                                        outputShape:(MPSShape*)outputShape
                                                         descriptor:
                                                             (MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                               name:(NSString* _Nullable)name;
- (MPSGraphTensor*)depthwiseConvolution3DWithSourceTensor:(MPSGraphTensor*)source
                                            weightsTensor:(MPSGraphTensor*)weightsTensor
                                               descriptor:(MPSGraphDepthwiseConvolution3DOpDescriptor*)descriptor
                                                     name:(NSString* _Nullable)name;
@end

// Pooling.

typedef NS_ENUM(NSUInteger, MPSGraphPoolingReturnIndicesMode) {
  MPSGraphPoolingReturnIndicesNone = 0,
  MPSGraphPoolingReturnIndicesGlobalFlatten1D = 1,
  MPSGraphPoolingReturnIndicesGlobalFlatten2D = 2,
  MPSGraphPoolingReturnIndicesGlobalFlatten3D = 3,
  MPSGraphPoolingReturnIndicesGlobalFlatten4D = 4,
  MPSGraphPoolingReturnIndicesLocalFlatten1D = 5,
  MPSGraphPoolingReturnIndicesLocalFlatten2D = 6,
  MPSGraphPoolingReturnIndicesLocalFlatten3D = 7,
  MPSGraphPoolingReturnIndicesLocalFlatten4D = 8,
};

@interface MPSGraphPooling2DOpDescriptor : MPSGraphObject <NSCopying>
@property(readwrite, nonatomic) NSUInteger kernelWidth, kernelHeight, strideInX, strideInY, dilationRateInX;
@property(readwrite, nonatomic) NSUInteger dilationRateInY, paddingLeft, paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout;
@property(readwrite, nonatomic) MPSGraphPoolingReturnIndicesMode returnIndicesMode;
@property(readwrite, nonatomic) MPSDataType returnIndicesDataType;
@property(readwrite, nonatomic) BOOL ceilMode, includeZeroPadToAverage;
+ (nullable instancetype)descriptorWithKernelWidth:(NSUInteger)kernelWidth
                                      kernelHeight:(NSUInteger)kernelHeight
                                         strideInX:(NSUInteger)strideInX
                                         strideInY:(NSUInteger)strideInY
                                   dilationRateInX:(NSUInteger)dilationRateInX
                                   dilationRateInY:(NSUInteger)dilationRateInY
                                       paddingLeft:(NSUInteger)paddingLeft
                                      paddingRight:(NSUInteger)paddingRight
                                        paddingTop:(NSUInteger)paddingTop
                                     paddingBottom:(NSUInteger)paddingBottom
                                      paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                                        dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout;
@end

@interface MPSGraph (MPSGraphPoolingOps)
- (MPSGraphTensor*)avgPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString* _Nullable)name;
- (MPSGraphTensor*)avgPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString* _Nullable)name;
- (MPSGraphTensor*)maxPooling2DGradientWithGradientTensor:(MPSGraphTensor*)gradient
                                             sourceTensor:(MPSGraphTensor*)sourceTensor
                                               descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                     name:(NSString* _Nullable)name;
- (NSArray<MPSGraphTensor*>*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                                  name:(NSString* _Nullable)name;
- (MPSGraphTensor*)maxPooling2DWithSourceTensor:(MPSGraphTensor*)source
                                     descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                           name:(NSString* _Nullable)name;
@end

// Resizing of images.

@interface MPSGraph (MPSGraphResizeOps)
- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                       centerResult:(BOOL)centerResult
                                       alignCorners:(BOOL)alignCorners
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                  scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                               centerResult:(BOOL)centerResult
                               alignCorners:(BOOL)alignCorners
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)tensor
                                 sizeTensor:(MPSGraphTensor*)sizeTensor
                          scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                      centerResult:(BOOL)centerResult
                                      alignCorners:(BOOL)alignCorners
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeNearestWithGradientTensor:(MPSGraphTensor*)gradient
                                             input:(MPSGraphTensor*)input
                                 scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                               nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                            layout:(MPSGraphTensorNamedDataLayout)layout
                                              name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                              centerResult:(BOOL)centerResult
                              alignCorners:(BOOL)alignCorners
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString* _Nullable)name;
- (MPSGraphTensor*)resizeNearestWithTensor:(MPSGraphTensor*)tensor
                                sizeTensor:(MPSGraphTensor*)sizeTensor
                         scaleOffsetTensor:(MPSGraphTensor*)scaleOffsetTensor
                       nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                    layout:(MPSGraphTensorNamedDataLayout)layout
                                      name:(NSString* _Nullable)name;
@end

// Sampling at the points of a grid.

@interface MPSGraph (MPSGraphSampleGridOps)
- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                          nearestRoundingMode:(MPSGraphResizeNearestRoundingMode)nearestRoundingMode
                                constantValue:(double)constantValue
                                         name:(NSString* _Nullable)name;
- (MPSGraphTensor*)sampleGridWithSourceTensor:(MPSGraphTensor*)source
                             coordinateTensor:(MPSGraphTensor*)coordinateTensor
                                       layout:(MPSGraphTensorNamedDataLayout)layout
                         normalizeCoordinates:(BOOL)normalizeCoordinates
                          relativeCoordinates:(BOOL)relativeCoordinates
                                 alignCorners:(BOOL)alignCorners
                                  paddingMode:(MPSGraphPaddingMode)paddingMode
                                 samplingMode:(MPSGraphResizeMode)samplingMode
                                constantValue:(double)constantValue
                                         name:(NSString* _Nullable)name;
@end

#pragma clang assume_nonnull end
