// The descriptors of convolutions, poolings, recurrent layers and Fourier
// transforms: their defaults.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "foundation/copying.h"
#include "support/counters.h"

// A class whose properties all begin as zero.
#define PLAIN_DESCRIPTOR(name)                 \
  @implementation name                         \
  +(instancetype)descriptor {                  \
    COUNT_CALL();                              \
    return [[[self alloc] init] autorelease];  \
  }                                            \
  COPIES_PROPERTIES                            \
  @end

@implementation MPSGraphConvolution2DOpDescriptor

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

COPIES_PROPERTIES

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

COPIES_PROPERTIES

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

COPIES_PROPERTIES

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

COPIES_PROPERTIES

@end

PLAIN_DESCRIPTOR(MPSGraphLSTMDescriptor)

PLAIN_DESCRIPTOR(MPSGraphFFTDescriptor)
