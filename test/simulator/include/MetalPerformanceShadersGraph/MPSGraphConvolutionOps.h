// Operations with windows over space.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

@interface MPSGraphConvolution2DOpDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic) NSUInteger strideInX, strideInY, dilationRateInX, dilationRateInY, paddingLeft;
@property(readwrite, nonatomic) NSUInteger paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout, weightsLayout;
@property(readwrite, nonatomic) NSUInteger groups;
@end

@interface MPSGraphConvolution3DOpDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic) NSUInteger strideInX, strideInY, strideInZ, dilationRateInX, dilationRateInY;
@property(readwrite, nonatomic) NSUInteger dilationRateInZ, paddingLeft, paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) NSUInteger paddingFront, paddingBack;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout, weightsLayout;
@property(readwrite, nonatomic) NSUInteger groups;
@end

@interface MPSGraphDepthwiseConvolution3DOpDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* strides;
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* dilationRates;
@property(readwrite, nonatomic, copy) NSArray<NSNumber*>* paddingValues;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) NSInteger channelDimensionIndex;
@end

typedef NS_ENUM(NSUInteger, MPSGraphPoolingReturnIndicesMode) {
  MPSGraphPoolingReturnIndicesNone = 0,
  MPSGraphPoolingReturnIndicesGlobalFlatten2D = 2,
};

@interface MPSGraphPooling2DOpDescriptor : MPSGraphObject<NSCopying>
@property(readwrite, nonatomic) NSUInteger kernelWidth, kernelHeight, strideInX, strideInY, dilationRateInX;
@property(readwrite, nonatomic) NSUInteger dilationRateInY, paddingLeft, paddingRight, paddingTop, paddingBottom;
@property(readwrite, nonatomic) MPSGraphPaddingStyle paddingStyle;
@property(readwrite, nonatomic) MPSGraphTensorNamedDataLayout dataLayout;
@property(readwrite, nonatomic) MPSGraphPoolingReturnIndicesMode returnIndicesMode;
@property(readwrite, nonatomic) MPSDataType returnIndicesDataType;
@property(readwrite, nonatomic) BOOL ceilMode, includeZeroPadToAverage;
+ (instancetype)descriptorWithKernelWidth:(NSUInteger)kernelWidth
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

// A convolution and its gradients; a pooling and its gradient.
#define MPS_CONVOLUTION(word, type, descriptor_of_gradients)                                                     \
  -(MPSGraphTensor*)word##WithSourceTensor : (MPSGraphTensor*)source weightsTensor                               \
      : (MPSGraphTensor*)weights descriptor : (type*)descriptor name : (NSString*)name;                          \
  -(MPSGraphTensor*)word##DataGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient weightsTensor       \
      : (MPSGraphTensor*)weights outputShape : (MPSShape*)shape descriptor_of_gradients : (type*)descriptor name \
      : (NSString*)name;                                                                                         \
  -(MPSGraphTensor*)word##WeightsGradientWithIncomingGradientTensor : (MPSGraphTensor*)gradient sourceTensor     \
      : (MPSGraphTensor*)source outputShape : (MPSShape*)shape descriptor_of_gradients : (type*)descriptor name  \
      : (NSString*)name;
#define MPS_POOLING(word)                                                                     \
  -(MPSGraphTensor*)word##WithSourceTensor : (MPSGraphTensor*)source descriptor               \
      : (MPSGraphPooling2DOpDescriptor*)descriptor name : (NSString*)name;                    \
  -(MPSGraphTensor*)word##GradientWithGradientTensor : (MPSGraphTensor*)gradient sourceTensor \
      : (MPSGraphTensor*)source descriptor : (MPSGraphPooling2DOpDescriptor*)descriptor name : (NSString*)name;

// The rest, as convolutions in three dimensions, is declared by the backend: MPSGraphVenturaOps.h.
@interface MPSGraph (MPSGraphConvolutionOps)
MPS_CONVOLUTION(convolution2D, MPSGraphConvolution2DOpDescriptor, forwardConvolutionDescriptor)
MPS_CONVOLUTION(depthwiseConvolution3D, MPSGraphDepthwiseConvolution3DOpDescriptor, descriptor)
MPS_FOR_EACH(MPS_POOLING, avgPooling2D, maxPooling2D)
- (NSArray<MPSGraphTensor*>*)maxPooling2DReturnIndicesWithSourceTensor:(MPSGraphTensor*)source
                                                            descriptor:(MPSGraphPooling2DOpDescriptor*)descriptor
                                                                  name:(NSString*)name;
@end
