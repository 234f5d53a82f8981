// The descriptors of convolutions, poolings, recurrent layers and Fourier
// transforms: their defaults and copies.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "support/counters.h"

@implementation MPSGraphConvolution2DOpDescriptor

+ (instancetype)descriptorWithStrideInX:(NSUInteger)strideInX
                              strideInY:(NSUInteger)strideInY
                        dilationRateInX:(NSUInteger)dilationRateInX
                        dilationRateInY:(NSUInteger)dilationRateInY
                                 groups:(NSUInteger)groups
                            paddingLeft:(NSUInteger)paddingLeft
                           paddingRight:(NSUInteger)paddingRight
                             paddingTop:(NSUInteger)paddingTop
                          paddingBottom:(NSUInteger)paddingBottom
                           paddingStyle:(MPSGraphPaddingStyle)paddingStyle
                             dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout
                          weightsLayout:(MPSGraphTensorNamedDataLayout)weightsLayout {
  COUNT_CALL();
  MPSGraphConvolution2DOpDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor.strideInX = strideInX;
  descriptor.strideInY = strideInY;
  descriptor.dilationRateInX = dilationRateInX;
  descriptor.dilationRateInY = dilationRateInY;
  descriptor.groups = groups;
  descriptor.paddingLeft = paddingLeft;
  descriptor.paddingRight = paddingRight;
  descriptor.paddingTop = paddingTop;
  descriptor.paddingBottom = paddingBottom;
  descriptor.paddingStyle = paddingStyle;
  descriptor.dataLayout = dataLayout;
  descriptor.weightsLayout = weightsLayout;
  return descriptor;
}

- (instancetype)init {
  if ((self = [super init])) {
    _strideInX = _strideInY = 1;
    _dilationRateInX = _dilationRateInY = 1;
    _groups = 1;
    _dataLayout = MPSGraphTensorNamedDataLayoutNCHW;
    _weightsLayout = MPSGraphTensorNamedDataLayoutOIHW;
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphConvolution2DOpDescriptor* copy = [[[self class] alloc] init];
  copy.strideInX = _strideInX;
  copy.strideInY = _strideInY;
  copy.dilationRateInX = _dilationRateInX;
  copy.dilationRateInY = _dilationRateInY;
  copy.groups = _groups;
  copy.paddingLeft = _paddingLeft;
  copy.paddingRight = _paddingRight;
  copy.paddingTop = _paddingTop;
  copy.paddingBottom = _paddingBottom;
  copy.paddingStyle = _paddingStyle;
  copy.dataLayout = _dataLayout;
  copy.weightsLayout = _weightsLayout;
  return copy;
}

@end

@implementation MPSGraphConvolution3DOpDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _strideInX = _strideInY = _strideInZ = 1;
    _dilationRateInX = _dilationRateInY = _dilationRateInZ = 1;
    _groups = 1;
    _dataLayout = MPSGraphTensorNamedDataLayoutNCDHW;
    _weightsLayout = MPSGraphTensorNamedDataLayoutOIDHW;
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphConvolution3DOpDescriptor* copy = [[[self class] alloc] init];
  copy.strideInX = _strideInX;
  copy.strideInY = _strideInY;
  copy.strideInZ = _strideInZ;
  copy.dilationRateInX = _dilationRateInX;
  copy.dilationRateInY = _dilationRateInY;
  copy.dilationRateInZ = _dilationRateInZ;
  copy.groups = _groups;
  copy.paddingLeft = _paddingLeft;
  copy.paddingRight = _paddingRight;
  copy.paddingTop = _paddingTop;
  copy.paddingBottom = _paddingBottom;
  copy.paddingFront = _paddingFront;
  copy.paddingBack = _paddingBack;
  copy.paddingStyle = _paddingStyle;
  copy.dataLayout = _dataLayout;
  copy.weightsLayout = _weightsLayout;
  return copy;
}

@end

@implementation MPSGraphDepthwiseConvolution3DOpDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    self.strides = @[ @1, @1, @1 ];
    self.dilationRates = @[ @1, @1, @1 ];
    self.paddingValues = @[ @0, @0, @0, @0, @0, @0 ];
    _channelDimensionIndex = -4;
  }
  return self;
}

- (void)dealloc {
  [_strides release];
  [_dilationRates release];
  [_paddingValues release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphDepthwiseConvolution3DOpDescriptor* copy = [[[self class] alloc] init];
  copy.strides = _strides;
  copy.dilationRates = _dilationRates;
  copy.paddingValues = _paddingValues;
  copy.paddingStyle = _paddingStyle;
  copy.channelDimensionIndex = _channelDimensionIndex;
  return copy;
}

@end

@implementation MPSGraphPooling2DOpDescriptor

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
                               dataLayout:(MPSGraphTensorNamedDataLayout)dataLayout {
  COUNT_CALL();
  MPSGraphPooling2DOpDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor.kernelWidth = kernelWidth;
  descriptor.kernelHeight = kernelHeight;
  descriptor.strideInX = strideInX;
  descriptor.strideInY = strideInY;
  descriptor.dilationRateInX = dilationRateInX;
  descriptor.dilationRateInY = dilationRateInY;
  descriptor.paddingLeft = paddingLeft;
  descriptor.paddingRight = paddingRight;
  descriptor.paddingTop = paddingTop;
  descriptor.paddingBottom = paddingBottom;
  descriptor.paddingStyle = paddingStyle;
  descriptor.dataLayout = dataLayout;
  return descriptor;
}

- (instancetype)init {
  if ((self = [super init])) {
    _kernelWidth = _kernelHeight = 1;
    _strideInX = _strideInY = 1;
    _dilationRateInX = _dilationRateInY = 1;
    _returnIndicesMode = MPSGraphPoolingReturnIndicesNone;
    _returnIndicesDataType = MPSDataTypeInt32;
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphPooling2DOpDescriptor* copy = [[[self class] alloc] init];
  copy.kernelWidth = _kernelWidth;
  copy.kernelHeight = _kernelHeight;
  copy.strideInX = _strideInX;
  copy.strideInY = _strideInY;
  copy.dilationRateInX = _dilationRateInX;
  copy.dilationRateInY = _dilationRateInY;
  copy.paddingLeft = _paddingLeft;
  copy.paddingRight = _paddingRight;
  copy.paddingTop = _paddingTop;
  copy.paddingBottom = _paddingBottom;
  copy.paddingStyle = _paddingStyle;
  copy.dataLayout = _dataLayout;
  copy.returnIndicesMode = _returnIndicesMode;
  copy.returnIndicesDataType = _returnIndicesDataType;
  copy.ceilMode = _ceilMode;
  copy.includeZeroPadToAverage = _includeZeroPadToAverage;
  return copy;
}

@end

@implementation MPSGraphLSTMDescriptor

+ (instancetype)descriptor {
  COUNT_CALL();
  return [[[self alloc] init] autorelease];
}

- (instancetype)init {
  if ((self = [super init])) {
    _inputGateActivation = MPSGraphRNNActivationSigmoid;
    _forgetGateActivation = MPSGraphRNNActivationSigmoid;
    _cellGateActivation = MPSGraphRNNActivationTanh;
    _outputGateActivation = MPSGraphRNNActivationSigmoid;
    _activation = MPSGraphRNNActivationTanh;
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphLSTMDescriptor* copy = [[[self class] alloc] init];
  copy.reverse = _reverse;
  copy.bidirectional = _bidirectional;
  copy.produceCell = _produceCell;
  copy.training = _training;
  copy.forgetGateLast = _forgetGateLast;
  copy.inputGateActivation = _inputGateActivation;
  copy.forgetGateActivation = _forgetGateActivation;
  copy.cellGateActivation = _cellGateActivation;
  copy.outputGateActivation = _outputGateActivation;
  copy.activation = _activation;
  return copy;
}

@end

@implementation MPSGraphFFTDescriptor

+ (instancetype)descriptor {
  COUNT_CALL();
  return [[[self alloc] init] autorelease];
}

- (id)copyWithZone:(NSZone*)zone {
  MPSGraphFFTDescriptor* copy = [[[self class] alloc] init];
  copy.inverse = _inverse;
  copy.scalingMode = _scalingMode;
  copy.roundToOddHermitean = _roundToOddHermitean;
  return copy;
}

@end
