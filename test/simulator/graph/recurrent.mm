// LSTM layers. Layouts, as Apple documents them, for T steps, a batch of N, I
// features and H units (the second form is for both directions):
//   source [T, N, I]; recurrent weight [4H, H] or [2, 4H, H];
//   input weight [4H, I] or [8H, I]; bias [4H] or [8H];
//   initial state and cell [N, H] or [N, 2H];
//   state and cell outputs [T, N, H] or [T, N, 2H]; training state [T, N, 4H] or [T, N, 8H].
// The order of the gates is input, forget, cell, output; with `forgetGateLast`
// forget and cell change places. The training state holds their values behind
// the activation, which is what the gradients need.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

#include <optional>
#include <vector>

namespace mps_simulator::graph {
namespace {

// Places of the operands among the inputs of the operation; -1 for a missing one.
struct Operands {
  std::vector<MPSGraphTensor*> tensors;
  int source = -1;
  int recurrent_weight = -1;
  int input_weight = -1;
  int bias = -1;
  int state = -1;
  int cell = -1;
  int gradient = -1;
  int gates = -1;
  int cells = -1;
  int state_gradient = -1;
  int cell_gradient = -1;

  int add(MPSGraphTensor* tensor) {
    if (tensor == nil) {
      return -1;
    }
    tensors.push_back(tensor);
    return static_cast<int>(tensors.size()) - 1;
  }
};

// The places only: a block of the graph must not retain the tensors.
struct Places : Operands {
  explicit Places(const Operands& operands) : Operands(operands) {
    tensors.clear();
  }
};

struct Layer {
  MPSGraphRNNActivation input_activation = MPSGraphRNNActivationSigmoid;
  MPSGraphRNNActivation forget_activation = MPSGraphRNNActivationSigmoid;
  MPSGraphRNNActivation cell_activation = MPSGraphRNNActivationTanh;
  MPSGraphRNNActivation output_activation = MPSGraphRNNActivationSigmoid;
  MPSGraphRNNActivation activation = MPSGraphRNNActivationTanh; // of the cell, on its way out
  bool forget_last = false;
  bool bidirectional = false;
  bool reverse = false;
  bool produce_cell = false;
  bool training = false;

  int64_t directions() const {
    return bidirectional ? 2 : 1;
  }

  bool backwards(int64_t direction) const {
    return bidirectional ? direction == 1 : reverse;
  }
};

MPSGraphRNNActivation activation_of(MPSGraphRNNActivation activation, const char* call) {
  switch (activation) {
    case MPSGraphRNNActivationNone:
    case MPSGraphRNNActivationRelu:
    case MPSGraphRNNActivationTanh:
    case MPSGraphRNNActivationSigmoid:
      return activation;
    default:
      // A hard sigmoid has two parameters, which Apple does not document.
      unsupported("%s with activation %lu", call, (unsigned long)activation);
  }
}

at::Tensor activated(MPSGraphRNNActivation activation, const at::Tensor& tensor) {
  switch (activation) {
    case MPSGraphRNNActivationRelu:
      return tensor.relu();
    case MPSGraphRNNActivationTanh:
      return tensor.tanh();
    case MPSGraphRNNActivationSigmoid:
      return tensor.sigmoid();
    default:
      return tensor;
  }
}

// The derivative of an activation, by its value.
at::Tensor slope(MPSGraphRNNActivation activation, const at::Tensor& value) {
  switch (activation) {
    case MPSGraphRNNActivationRelu:
      return value.gt(0).to(value.scalar_type());
    case MPSGraphRNNActivationTanh:
      return 1 - value * value;
    case MPSGraphRNNActivationSigmoid:
      return value * (1 - value);
    default:
      return at::ones_like(value);
  }
}

Layer layer_of(MPSGraphLSTMDescriptor* descriptor, const char* call) {
  Layer layer;
  layer.input_activation = activation_of(descriptor.inputGateActivation, call);
  layer.forget_activation = activation_of(descriptor.forgetGateActivation, call);
  layer.cell_activation = activation_of(descriptor.cellGateActivation, call);
  layer.output_activation = activation_of(descriptor.outputGateActivation, call);
  layer.activation = activation_of(descriptor.activation, call);
  layer.forget_last = descriptor.forgetGateLast;
  layer.bidirectional = descriptor.bidirectional;
  layer.reverse = descriptor.reverse;
  layer.produce_cell = descriptor.produceCell;
  layer.training = descriptor.training;
  return layer;
}

// Everything that one direction of a layer computes with, in single precision.
struct Direction {
  at::Tensor recurrent_weight; // [4H, H]
  at::Tensor input_weight; // [4H, I], undefined: the source holds the products already
  at::Tensor bias; // [4H], maybe undefined
  at::Tensor state; // [N, H]
  at::Tensor cell; // [N, H]
};

int64_t units_of(const Tensors& inputs, const Places& places) {
  return inputs[places.recurrent_weight].size(-1);
}

// The part of a tensor whose last dimension holds one block per direction.
at::Tensor part(const at::Tensor& tensor, const Layer& layer, int64_t direction) {
  const auto width = tensor.size(-1) / layer.directions();
  return tensor.narrow(-1, direction * width, width);
}

// The products of a layer that has no input weight come in the source; then a
// direction sees its part only.
at::Tensor source_of(const Tensors& inputs, const Places& places, const Layer& layer, int64_t direction) {
  const auto source = widen(inputs[places.source]);
  return places.input_weight < 0 ? part(source, layer, direction) : source;
}

Direction direction_of(const Tensors& inputs, const Places& places, const Layer& layer, int64_t direction) {
  const auto units = units_of(inputs, places);
  const auto batch = inputs[places.source].size(1);
  Direction result;
  result.recurrent_weight =
      widen(inputs[places.recurrent_weight]).reshape({layer.directions(), 4 * units, units}).select(0, direction);
  if (places.input_weight >= 0) {
    result.input_weight =
        widen(inputs[places.input_weight]).reshape({layer.directions(), 4 * units, -1}).select(0, direction);
  }
  if (places.bias >= 0) {
    result.bias = widen(inputs[places.bias]).reshape({layer.directions(), 4 * units}).select(0, direction);
  }
  const auto initial = [&](int place) {
    if (place < 0) {
      return at::zeros({batch, units}, result.recurrent_weight.options());
    }
    return part(widen(inputs[place]).reshape({batch, -1}), layer, direction);
  };
  result.state = initial(places.state);
  result.cell = initial(places.cell);
  return result;
}

struct Gates {
  at::Tensor input;
  at::Tensor forget;
  at::Tensor cell;
  at::Tensor output;

  Gates(const at::Tensor& all, const Layer& layer) {
    const auto parts = all.chunk(4, -1);
    input = parts[0];
    forget = parts[layer.forget_last ? 2 : 1];
    cell = parts[layer.forget_last ? 1 : 2];
    output = parts[3];
  }

  at::Tensor joined(const Layer& layer) const {
    return layer.forget_last ? at::cat({input, cell, forget, output}, -1) : at::cat({input, forget, cell, output}, -1);
  }
};

struct Pass {
  at::Tensor states; // [T, N, H]
  at::Tensor cells; // [T, N, H]
  at::Tensor gates; // [T, N, 4H]
};

int64_t step_at(int64_t position, int64_t steps, bool backwards) {
  return backwards ? steps - 1 - position : position;
}

Pass run(const Direction& weights, const at::Tensor& source, const Layer& layer, bool backwards) {
  const auto steps = source.size(0);
  auto products = weights.input_weight.defined() ? at::matmul(source, weights.input_weight.t()) : source;
  if (weights.bias.defined()) {
    products = products + weights.bias;
  }
  std::vector<at::Tensor> states(steps), cells(steps), gates(steps);
  auto state = weights.state;
  auto cell = weights.cell;
  for (const auto position : c10::irange(steps)) {
    const auto step = step_at(position, steps, backwards);
    Gates gate(products.select(0, step) + at::matmul(state, weights.recurrent_weight.t()), layer);
    gate.input = activated(layer.input_activation, gate.input);
    gate.forget = activated(layer.forget_activation, gate.forget);
    gate.cell = activated(layer.cell_activation, gate.cell);
    gate.output = activated(layer.output_activation, gate.output);
    cell = gate.forget * cell + gate.input * gate.cell;
    state = gate.output * activated(layer.activation, cell);
    states[step] = state;
    cells[step] = cell;
    gates[step] = gate.joined(layer);
  }
  return {at::stack(states), at::stack(cells), at::stack(gates)};
}

struct Gradients {
  at::Tensor source; // [T, N, I]
  at::Tensor recurrent_weight; // [4H, H]
  at::Tensor input_weight; // [4H, I]
  at::Tensor bias; // [4H]
  at::Tensor state; // [N, H]
  at::Tensor cell; // [N, H]
};

// `states` is what the forward pass returned; it follows from gates and cells.
Gradients run_gradients(const Direction& weights,
                        const at::Tensor& source,
                        const Pass& forward,
                        const at::Tensor& output_gradient, // [T, N, H]
                        const at::Tensor& last_state_gradient, // [N, H]
                        const at::Tensor& last_cell_gradient, // [N, H]
                        const Layer& layer,
                        bool backwards) {
  const auto steps = source.size(0);
  auto state_gradient = last_state_gradient;
  auto cell_gradient = last_cell_gradient;
  std::vector<at::Tensor> product_gradients(steps), previous_states(steps);
  for (auto position = steps - 1; position >= 0; --position) {
    const auto step = step_at(position, steps, backwards);
    const bool first = position == 0;
    const auto before = first ? 0 : step_at(position - 1, steps, backwards);
    const auto previous_cell = first ? weights.cell : forward.cells.select(0, before);
    previous_states[step] = first ? weights.state : forward.states.select(0, before);

    const Gates gate(forward.gates.select(0, step), layer);
    const auto squashed = activated(layer.activation, forward.cells.select(0, step));
    state_gradient = state_gradient + output_gradient.select(0, step);
    cell_gradient = cell_gradient + state_gradient * gate.output * slope(layer.activation, squashed);

    // With respect to the gates before their activation.
    Gates through = gate;
    through.input = cell_gradient * gate.cell * slope(layer.input_activation, gate.input);
    through.forget = cell_gradient * previous_cell * slope(layer.forget_activation, gate.forget);
    through.cell = cell_gradient * gate.input * slope(layer.cell_activation, gate.cell);
    through.output = state_gradient * squashed * slope(layer.output_activation, gate.output);
    product_gradients[step] = through.joined(layer);

    state_gradient = at::matmul(product_gradients[step], weights.recurrent_weight);
    cell_gradient = cell_gradient * gate.forget;
  }

  const auto all = at::stack(product_gradients); // [T, N, 4H]
  const auto flat = all.flatten(0, 1);
  Gradients result;
  result.recurrent_weight = at::matmul(flat.t(), at::stack(previous_states).flatten(0, 1));
  if (weights.input_weight.defined()) {
    result.source = at::matmul(all, weights.input_weight);
    result.input_weight = at::matmul(flat.t(), source.flatten(0, 1));
  } else {
    result.source = all;
  }
  result.bias = flat.sum(0);
  result.state = state_gradient;
  result.cell = cell_gradient;
  return result;
}

Tensors forward(const Tensors& inputs, const Places& places, const Layer& layer) {
  const auto& source = inputs[places.source];
  std::vector<at::Tensor> states, cells, gates;
  if (is_sample(source)) {
    const auto width = layer.directions() * units_of(inputs, places);
    const auto empty = [&](int64_t size) {
      return at::empty({source.size(0), source.size(1), size}, source.options());
    };
    states = {empty(width)};
    cells = {empty(width)};
    gates = {empty(4 * width)};
  } else {
    for (const auto direction : c10::irange(layer.directions())) {
      const auto pass = run(direction_of(inputs, places, layer, direction),
                            source_of(inputs, places, layer, direction),
                            layer,
                            layer.backwards(direction));
      states.push_back(pass.states);
      cells.push_back(pass.cells);
      gates.push_back(pass.gates);
    }
  }
  const auto type = source.scalar_type();
  Tensors outputs{at::cat(states, -1).to(type)};
  if (layer.produce_cell) {
    outputs.push_back(at::cat(cells, -1).to(type));
  }
  if (layer.training) {
    outputs.push_back(at::cat(gates, -1).to(type));
  }
  return outputs;
}

Tensors gradients(const Tensors& inputs, const Places& places, const Layer& layer) {
  const auto& source = inputs[places.source];
  const auto batch = source.size(1);
  const auto units = units_of(inputs, places);
  const auto width = layer.directions() * units;
  Tensors outputs;
  if (is_sample(source)) {
    const auto empty = [&](at::IntArrayRef sizes) { return at::empty(sizes, source.options()); };
    outputs = {empty(source.sizes()), empty(inputs[places.recurrent_weight].sizes())};
    if (places.input_weight >= 0) {
      outputs.push_back(empty(inputs[places.input_weight].sizes()));
    }
    if (places.bias >= 0) {
      outputs.push_back(layer.bidirectional ? empty({1, 1, 4 * width}) : empty({4 * width}));
    }
    for (const auto place : {places.state, places.cell}) {
      if (place >= 0) {
        outputs.push_back(empty({batch, width}));
      }
    }
    return outputs;
  }

  std::vector<Gradients> results;
  for (const auto direction : c10::irange(layer.directions())) {
    const auto weights = direction_of(inputs, places, layer, direction);
    Pass pass;
    pass.gates = part(widen(inputs[places.gates]), layer, direction);
    pass.cells = part(widen(inputs[places.cells]), layer, direction);
    pass.states = Gates(pass.gates, layer).output * activated(layer.activation, pass.cells);
    const auto last = [&](int place) {
      return place < 0 ? at::zeros_like(weights.state)
                       : part(widen(inputs[place]).reshape({batch, -1}), layer, direction);
    };
    results.push_back(run_gradients(weights,
                                    source_of(inputs, places, layer, direction),
                                    pass,
                                    part(widen(inputs[places.gradient]), layer, direction),
                                    last(places.state_gradient),
                                    last(places.cell_gradient),
                                    layer,
                                    layer.backwards(direction)));
  }

  const auto gather = [&](at::Tensor Gradients::* member, int64_t axis) {
    std::vector<at::Tensor> tensors;
    for (const auto& result : results) {
      tensors.push_back(result.*member);
    }
    return at::cat(tensors, axis);
  };
  if (places.input_weight >= 0) {
    auto sum = results[0].source;
    for (const auto i : c10::irange(size_t(1), results.size())) {
      sum = sum + results[i].source;
    }
    outputs.push_back(sum);
  } else {
    outputs.push_back(gather(&Gradients::source, -1));
  }
  outputs.push_back(gather(&Gradients::recurrent_weight, 0).reshape(inputs[places.recurrent_weight].sizes()));
  if (places.input_weight >= 0) {
    outputs.push_back(gather(&Gradients::input_weight, 0));
  }
  if (places.bias >= 0) {
    const auto bias = gather(&Gradients::bias, 0);
    outputs.push_back(layer.bidirectional ? bias.reshape({1, 1, 4 * width}) : bias);
  }
  if (places.state >= 0) {
    outputs.push_back(gather(&Gradients::state, -1));
  }
  if (places.cell >= 0) {
    outputs.push_back(gather(&Gradients::cell, -1));
  }
  for (auto& output : outputs) {
    output = output.to(source.scalar_type());
  }
  return outputs;
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphRNNOps)

- (NSArray<MPSGraphTensor*>*)LSTMWithSourceTensor:(MPSGraphTensor*)source
                                  recurrentWeight:(MPSGraphTensor*)recurrentWeight
                                      inputWeight:(MPSGraphTensor*)inputWeight
                                             bias:(MPSGraphTensor*)bias
                                        initState:(MPSGraphTensor*)initState
                                         initCell:(MPSGraphTensor*)initCell
                                       descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                             name:(NSString*)name {
  COUNT_CALL();
  const auto layer = layer_of(descriptor, __func__);
  Operands operands;
  operands.source = operands.add(source);
  operands.recurrent_weight = operands.add(recurrentWeight);
  operands.input_weight = operands.add(inputWeight);
  operands.bias = operands.add(bias);
  operands.state = operands.add(initState);
  operands.cell = operands.add(initCell);
  const Places places(operands);
  const size_t outputs = 1 + (layer.produce_cell ? 1 : 0) + (layer.training ? 1 : 0);
  return add_operations(self, "LSTM", operands.tensors, outputs, name, [=](const Tensors& inputs) {
    return forward(inputs, places, layer);
  });
}

- (NSArray<MPSGraphTensor*>*)LSTMGradientsWithSourceTensor:(MPSGraphTensor*)source
                                           recurrentWeight:(MPSGraphTensor*)recurrentWeight
                                            sourceGradient:(MPSGraphTensor*)sourceGradient
                                                    zState:(MPSGraphTensor*)zState
                                             cellOutputFwd:(MPSGraphTensor*)cellOutputFwd
                                             stateGradient:(MPSGraphTensor*)stateGradient
                                              cellGradient:(MPSGraphTensor*)cellGradient
                                               inputWeight:(MPSGraphTensor*)inputWeight
                                                      bias:(MPSGraphTensor*)bias
                                                 initState:(MPSGraphTensor*)initState
                                                  initCell:(MPSGraphTensor*)initCell
                                                      mask:(MPSGraphTensor*)mask
                                                  peephole:(MPSGraphTensor*)peephole
                                                descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                                      name:(NSString*)name {
  COUNT_CALL();
  if (mask != nil) {
    unsupported("%s with a mask", __func__);
  }
  if (peephole != nil) {
    unsupported("%s with a peephole vector", __func__);
  }
  const auto layer = layer_of(descriptor, __func__);
  Operands operands;
  operands.source = operands.add(source);
  operands.recurrent_weight = operands.add(recurrentWeight);
  operands.gradient = operands.add(sourceGradient);
  operands.gates = operands.add(zState);
  operands.cells = operands.add(cellOutputFwd);
  operands.state_gradient = operands.add(stateGradient);
  operands.cell_gradient = operands.add(cellGradient);
  operands.input_weight = operands.add(inputWeight);
  operands.bias = operands.add(bias);
  operands.state = operands.add(initState);
  operands.cell = operands.add(initCell);
  const Places places(operands);
  size_t outputs = 2;
  for (const auto place : {places.input_weight, places.bias, places.state, places.cell}) {
    outputs += place >= 0 ? 1 : 0;
  }
  return add_operations(self, "LSTM gradients", operands.tensors, outputs, name, [=](const Tensors& inputs) {
    return gradients(inputs, places, layer);
  });
}

@end
