// Pooling beyond what the backend asks for. Run by test_graph_core.py.
#include "graph_cases.h"

namespace {

MPSGraphPooling2DOpDescriptor* two_by_two(MPSGraphTensorNamedDataLayout layout, NSUInteger dilation) {
  return [MPSGraphPooling2DOpDescriptor descriptorWithKernelWidth:2
                                                     kernelHeight:2
                                                        strideInX:1
                                                        strideInY:1
                                                  dilationRateInX:dilation
                                                  dilationRateInY:dilation
                                                      paddingLeft:0
                                                     paddingRight:0
                                                       paddingTop:0
                                                    paddingBottom:0
                                                     paddingStyle:MPSGraphPaddingStyleExplicit
                                                       dataLayout:layout];
}

// Two images of one channel (or, the other way round, one of two) of two rows
// and three columns; the maxima lie at (1, 2) and (0, 1).
const std::vector<float> kImages = {0, 1, 2, 3, 4, 9, 5, 9, 1, 2, 3, 4};

std::vector<int32_t> indices_of_maxima(MPSGraphPoolingReturnIndicesMode mode,
                                       MPSGraphTensorNamedDataLayout layout,
                                       const std::vector<int64_t>& sizes,
                                       const std::vector<float>& values,
                                       const std::vector<int64_t>& result_sizes) {
  return apply<int32_t, float>(sizes, values, result_sizes, 4, [&](MPSGraph* graph, MPSGraphTensor* input) {
    MPSGraphPooling2DOpDescriptor* descriptor = two_by_two(layout, 1);
    descriptor.returnIndicesMode = mode;
    descriptor.returnIndicesDataType = MPSDataTypeInt32;
    return [graph maxPooling2DReturnIndicesWithSourceTensor:input descriptor:descriptor name:nil][1];
  });
}

std::vector<int32_t> indices_in_rows(MPSGraphPoolingReturnIndicesMode mode) {
  return indices_of_maxima(mode, MPSGraphTensorNamedDataLayoutNCHW, {2, 1, 2, 3}, kImages, {2, 1, 1, 2});
}

} // namespace

CASE(pooling_indices_in_the_image) {
  // The windows' maxima: (1,1), (1,2) in the first image, (0,1), (0,1) in the second.
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesGlobalFlatten1D), {1, 2, 1, 1});
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesGlobalFlatten2D), {4, 5, 1, 1});
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesGlobalFlatten3D), {4, 5, 1, 1});
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesGlobalFlatten4D), {4, 5, 7, 7});
}

CASE(pooling_indices_in_the_window) {
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesLocalFlatten1D), {1, 1, 1, 0});
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesLocalFlatten2D), {3, 3, 1, 0});
  expect(indices_in_rows(MPSGraphPoolingReturnIndicesLocalFlatten4D), {3, 3, 1, 0});
}

CASE(pooling_indices_with_channels_last) {
  // The same pixels as two channels of one image: rows, columns, channels.
  const std::vector<float> interleaved = {0, 5, 1, 9, 2, 1, 3, 2, 4, 3, 9, 4};
  const auto indices = [&](MPSGraphPoolingReturnIndicesMode mode) {
    return indices_of_maxima(mode, MPSGraphTensorNamedDataLayoutNHWC, {1, 2, 3, 2}, interleaved, {1, 1, 2, 2});
  };
  expect(indices(MPSGraphPoolingReturnIndicesGlobalFlatten1D), {0, 1, 0, 1});
  expect(indices(MPSGraphPoolingReturnIndicesGlobalFlatten2D), {2, 3, 4, 3});
  expect(indices(MPSGraphPoolingReturnIndicesGlobalFlatten3D), {8, 3, 10, 3});
  expect(indices(MPSGraphPoolingReturnIndicesLocalFlatten3D), {3, 1, 3, 0});
}

CASE(pooling_without_a_mode_has_no_indices) {
  expect_violation("return indices mode 0", [] { indices_in_rows(MPSGraphPoolingReturnIndicesNone); });
}

CASE(average_pooling_with_dilation) {
  const std::vector<float> image = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  // Corners of 3×3 squares: 0, 2, 8, 10 and 1, 3, 9, 11.
  const auto averages =
      apply<float, float>({1, 1, 3, 4}, image, {1, 1, 1, 2}, 2, [](MPSGraph* graph, MPSGraphTensor* input) {
        return [graph avgPooling2DWithSourceTensor:input
                                        descriptor:two_by_two(MPSGraphTensorNamedDataLayoutNCHW, 2)
                                              name:nil];
      });
  expect(averages, {5, 6});
  const auto gradients =
      apply<float, float>({1, 1, 1, 2}, {4, 8}, {1, 1, 3, 4}, 12, [](MPSGraph* graph, MPSGraphTensor* gradient) {
        MPSGraphTensor* source = [graph constantWithScalar:0 shape:shape({1, 1, 3, 4}) dataType:MPSDataTypeFloat32];
        return [graph avgPooling2DGradientWithGradientTensor:gradient
                                                sourceTensor:source
                                                  descriptor:two_by_two(MPSGraphTensorNamedDataLayoutNCHW, 2)
                                                        name:nil];
      });
  expect(gradients, {1, 2, 1, 2, 0, 0, 0, 0, 1, 2, 1, 2});
}
