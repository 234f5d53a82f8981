// LSTM layers beyond what the backend asks for. Run by test_graph_core.py.
#include "graph_cases.h"

#include <cmath>

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
