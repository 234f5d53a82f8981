// The descriptors of convolutions, poolings, recurrent layers and Fourier
// transforms: their defaults.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "foundation/copying.h"
#include "graph/windows.h"
#include "support/counters.h"
#include "support/error.h"

#include <algorithm>

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

COPIES_PROPERTIES

@end

@implementation MPSGraphFFTDescriptor

+ (instancetype)descriptor {
  COUNT_CALL();
  return [[[self alloc] init] autorelease];
}

COPIES_PROPERTIES

@end

namespace mps_simulator::graph {

WindowPadding WindowGeometry::padding(size_t dimension, int64_t extent, int64_t kernel, const char* call) const {
  // As much as it takes for one window per stride.
  const auto total = [&] {
    const auto outputs = (extent + stride[dimension] - 1) / stride[dimension];
    return std::max<int64_t>((outputs - 1) * stride[dimension] + reach(dimension, kernel) - extent, 0);
  };
  switch (padding_style) {
    case MPSGraphPaddingStyleExplicit:
      return {padding_before[dimension], padding_after[dimension]};
    case MPSGraphPaddingStyleTF_VALID:
      return {0, 0};
    // They differ in the side of an odd pixel.
    case MPSGraphPaddingStyleTF_SAME:
      return {total() / 2, total() - total() / 2};
    case MPSGraphPaddingStyleONNX_SAME_LOWER:
      return {total() - total() / 2, total() / 2};
    default:
      unsupported("%s with padding style %lu", call, (unsigned long)padding_style);
  }
}

bool has_channels_last(MPSGraphTensorNamedDataLayout layout, const char* call) {
  switch (layout) {
    case MPSGraphTensorNamedDataLayoutNCHW:
    case MPSGraphTensorNamedDataLayoutCHW:
    case MPSGraphTensorNamedDataLayoutHW:
      return false;
    case MPSGraphTensorNamedDataLayoutNHWC:
    case MPSGraphTensorNamedDataLayoutHWC:
      return true;
    default:
      unsupported("%s with data layout %lu", call, (unsigned long)layout);
  }
}

} // namespace mps_simulator::graph
