// Pooling and LSTM layers beyond what the backend asks for. Run by test_graph_core.py.
#include "graph_cases.h"

#include <cmath>

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

namespace {

// Three steps, a batch of one, one feature, one unit.
const std::vector<float> kSource = {0.5f, -0.3f, 0.8f};
const std::vector<float> kRecurrent = {0.3f, -0.2f, 0.5f, 0.7f};
const std::vector<float> kInput = {0.6f, 0.4f, -0.5f, 0.2f};
const std::vector<float> kBias = {0.1f, 0.2f, 0.3f, 0.4f};

MPSGraphTensor* constant(MPSGraph* graph, const std::vector<float>& values, const std::vector<int64_t>& sizes) {
  NSData* data = [NSData dataWithBytes:values.data() length:values.size() * sizeof(float)];
  return [graph constantWithData:data shape:shape(sizes) dataType:MPSDataTypeFloat32];
}

using Weights = std::vector<float>;

Weights swapped(const Weights& weights) {
  return {weights[0], weights[2], weights[1], weights[3]};
}

struct Layer {
  MPSGraphLSTMDescriptor* descriptor = [MPSGraphLSTMDescriptor descriptor];
  Weights recurrent = kRecurrent;
  Weights input = kInput;
  Weights bias = kBias;

  Layer() {
    descriptor.training = YES;
    descriptor.produceCell = YES;
  }

  NSArray<MPSGraphTensor*>* add(MPSGraph* graph, MPSGraphTensor* source) const {
    return [graph LSTMWithSourceTensor:source
                       recurrentWeight:constant(graph, recurrent, {4, 1})
                           inputWeight:constant(graph, input, {4, 1})
                                  bias:constant(graph, bias, {4})
                             initState:nil
                              initCell:nil
                            descriptor:descriptor
                                  name:nil];
  }

  std::vector<float> states(const std::vector<float>& source) const {
    return apply<float, float>(
        {3, 1, 1}, source, {3, 1, 1}, 3, [&](MPSGraph* graph, MPSGraphTensor* input) { return add(graph, input)[0]; });
  }

  // Of the sum of all states by the source.
  std::vector<float> gradients() const {
    return apply<float, float>({3, 1, 1}, kSource, {3, 1, 1}, 3, [&](MPSGraph* graph, MPSGraphTensor* source) {
      NSArray<MPSGraphTensor*>* results = add(graph, source);
      return [graph LSTMGradientsWithSourceTensor:source
                                  recurrentWeight:constant(graph, recurrent, {4, 1})
                                   sourceGradient:constant(graph, {1, 1, 1}, {3, 1, 1})
                                           zState:results[2]
                                    cellOutputFwd:results[1]
                                    stateGradient:nil
                                     cellGradient:nil
                                      inputWeight:constant(graph, input, {4, 1})
                                             bias:constant(graph, bias, {4})
                                        initState:nil
                                         initCell:nil
                                             mask:nil
                                         peephole:nil
                                       descriptor:descriptor
                                             name:nil][0];
    });
  }
};

void expect_near(const std::vector<float>& actual, const std::vector<float>& wanted, float tolerance) {
  for (size_t i = 0; i < wanted.size(); i++) {
    if (!(std::abs(actual[i] - wanted[i]) <= tolerance)) {
      fail("got ", join(actual), "instead of ", join(wanted));
    }
  }
}

std::vector<float> differences(const Layer& layer) {
  const float step = 1e-2f;
  std::vector<float> result;
  for (size_t i = 0; i < kSource.size(); i++) {
    float sums[2] = {0, 0};
    for (const int side : {0, 1}) {
      std::vector<float> source = kSource;
      source[i] += side == 0 ? -step : step;
      for (const float state : layer.states(source)) {
        sums[side] += state;
      }
    }
    result.push_back((sums[1] - sums[0]) / (2 * step));
  }
  return result;
}

} // namespace

CASE(lstm_with_the_gates_in_another_order) {
  const Layer usual;
  Layer other;
  other.descriptor.forgetGateLast = YES;
  other.recurrent = swapped(kRecurrent);
  other.input = swapped(kInput);
  other.bias = swapped(kBias);
  expect_near(other.states(kSource), usual.states(kSource), 1e-6f);
  expect_near(other.gradients(), usual.gradients(), 1e-6f);
  // And it is the order that matters.
  other.descriptor.forgetGateLast = NO;
  if (std::abs(other.states(kSource)[2] - usual.states(kSource)[2]) < 1e-3f) {
    fail("the order of the gates makes no difference");
  }
}

CASE(lstm_with_other_activations) {
  Layer layer;
  layer.descriptor.inputGateActivation = MPSGraphRNNActivationTanh;
  layer.descriptor.cellGateActivation = MPSGraphRNNActivationNone;
  layer.descriptor.outputGateActivation = MPSGraphRNNActivationRelu;
  layer.descriptor.activation = MPSGraphRNNActivationSigmoid;
  // The first step by hand: there is no state and no cell yet.
  const float input = std::tanh(0.6f * 0.5f + 0.1f);
  const float cell = input * (-0.5f * 0.5f + 0.3f);
  const float output = std::max(0.2f * 0.5f + 0.4f, 0.f);
  expect_near({layer.states(kSource)[0]}, {output / (1 + std::exp(-cell))}, 1e-6f);
  expect_near(layer.gradients(), differences(layer), 1e-3f);
}

CASE(lstm_gradients_are_differences) {
  const Layer layer;
  expect_near(layer.gradients(), differences(layer), 1e-3f);
}
