// LSTM layers in training. Layouts, as Apple documents them, for T steps, a batch
// of N, I features and H units (the second form is for both directions):
//   source [T, N, I]; recurrent weight [4H, H] or [2, 4H, H];
//   input weight [4H, I] or [8H, I]; bias [4H] or [8H];
//   initial state and cell [N, H] or [N, 2H];
//   state and cell outputs [T, N, H] or [T, N, 2H]; training state [T, N, 4H] or [T, N, 8H].
// The order of the gates is input, forget, cell, output. The training state holds
// their values behind the activation, which is what the gradients need.
#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/irange.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

// How many directions the layer has.
int64_t directions_of(MPSGraphLSTMDescriptor* descriptor, const char* method) {
  if (!descriptor.produceCell || !descriptor.training) {
    unsupported("%s without training or the cell", method);
  }
  return descriptor.bidirectional ? 2 : 1;
}

// One direction of a layer, in single precision; the second one goes backwards.
struct Direction {
  int64_t number;
  int64_t count;
  at::Tensor source; // [T, N, I]
  at::Tensor recurrent_weight; // [4H, H]
  at::Tensor input_weight; // [4H, I]
  at::Tensor bias; // [4H], maybe undefined
  at::Tensor state; // [N, H]
  at::Tensor cell; // [N, H]

  // The first inputs of both operations.
  Direction(const Tensors& inputs, int64_t number, int64_t count)
      : number(number),
        count(count),
        source(widen(inputs[0])),
        recurrent_weight(part(inputs[1].flatten(0, -2), 0)),
        input_weight(part(inputs[2], 0)),
        bias(inputs[3].defined() ? part(inputs[3], 0) : at::Tensor()),
        state(part(inputs[4].reshape({source.size(1), -1}), 1)),
        cell(part(inputs[5].reshape({source.size(1), -1}), 1)) {}

  // Of a tensor that holds one block per direction along the axis.
  at::Tensor part(const at::Tensor& tensor, int64_t axis) const {
    return widen(tensor).chunk(count, axis)[number];
  }

  int64_t steps() const {
    return source.size(0);
  }

  int64_t step_at(int64_t position) const {
    return number ? steps() - 1 - position : position;
  }
};

// States, cells and gates.
Tensors forward(const Direction& layer) {
  auto products = at::matmul(layer.source, layer.input_weight.t());
  if (layer.bias.defined()) {
    products = products + layer.bias;
  }
  Tensors states(layer.steps()), cells(layer.steps()), gates(layer.steps());
  auto state = layer.state;
  auto cell = layer.cell;
  for (const auto position : c10::irange(layer.steps())) {
    const auto step = layer.step_at(position);
    const auto gate = (products[step] + at::matmul(state, layer.recurrent_weight.t())).chunk(4, -1);
    const Tensors values{gate[0].sigmoid(), gate[1].sigmoid(), gate[2].tanh(), gate[3].sigmoid()};
    cell = values[1] * cell + values[0] * values[2];
    state = values[3] * cell.tanh();
    states[step] = state;
    cells[step] = cell;
    gates[step] = at::cat(values, -1);
  }
  return {at::stack(states), at::stack(cells), at::stack(gates)};
}

// Of the source, the recurrent and the input weight, the bias, state and cell.
// The gradient of the output, the gates and cells of the forward pass, and the
// gradients of the last state and cell are the last inputs.
Tensors backward(const Direction& layer, const Tensors& inputs) {
  const auto output_gradient = layer.part(inputs[6], -1);
  const auto gates = layer.part(inputs[7], -1);
  const auto cells = layer.part(inputs[8], -1);
  const auto states = gates.chunk(4, -1)[3] * cells.tanh();
  const auto last = [&](const at::Tensor& given) { return layer.part(given.reshape({layer.source.size(1), -1}), -1); };
  auto state_gradient = last(inputs[9]);
  auto cell_gradient = last(inputs[10]);
  Tensors product_gradients(layer.steps()), previous_states(layer.steps());
  for (auto position = layer.steps() - 1; position >= 0; --position) {
    const auto step = layer.step_at(position);
    const bool first = position == 0;
    const auto before = first ? 0 : layer.step_at(position - 1);
    const auto previous_cell = first ? layer.cell : cells[before];
    previous_states[step] = first ? layer.state : states[before];

    const auto gate = gates[step].chunk(4, -1);
    const auto squashed = cells[step].tanh();
    state_gradient = state_gradient + output_gradient[step];
    cell_gradient = cell_gradient + state_gradient * gate[3] * (1 - squashed * squashed);
    // With respect to the gates before their activation.
    product_gradients[step] = at::cat({cell_gradient * gate[2] * gate[0] * (1 - gate[0]),
                                       cell_gradient * previous_cell * gate[1] * (1 - gate[1]),
                                       cell_gradient * gate[0] * (1 - gate[2] * gate[2]),
                                       state_gradient * squashed * gate[3] * (1 - gate[3])},
                                      -1);
    state_gradient = at::matmul(product_gradients[step], layer.recurrent_weight);
    cell_gradient = cell_gradient * gate[1];
  }
  const auto all = at::stack(product_gradients); // [T, N, 4H]
  const auto flat = all.flatten(0, 1);
  return {at::matmul(all, layer.input_weight),
          at::matmul(flat.t(), at::stack(previous_states).flatten(0, 1)),
          at::matmul(flat.t(), layer.source.flatten(0, 1)),
          flat.sum(0),
          state_gradient,
          cell_gradient};
}

// One list of outputs per direction becomes one list, joined along the axis of each.
Tensors joined(const std::vector<Tensors>& parts, at::IntArrayRef axes, at::ScalarType type) {
  Tensors results;
  for (const auto i : c10::irange(axes.size())) {
    Tensors tensors;
    for (const auto& part : parts) {
      tensors.push_back(part[i]);
    }
    results.push_back(at::cat(tensors, axes[i]).to(type));
  }
  return results;
}

Tensors gradients(const Tensors& inputs, int64_t directions) {
  std::vector<Tensors> parts;
  for (const auto number : c10::irange(directions)) {
    parts.push_back(backward(Direction(inputs, number, directions), inputs));
  }
  const auto type = inputs[0].scalar_type();
  Tensors results = joined(parts, {0, 0, 0, 0, -1, -1}, type);
  results[0] = directions == 2 ? (parts[0][0] + parts[1][0]).to(type) : results[0];
  results[1] = results[1].reshape(inputs[1].sizes());
  if (directions == 2) {
    results[3] = results[3].reshape({1, 1, -1});
  }
  if (!inputs[3].defined()) {
    results.erase(results.begin() + 3);
  }
  return results;
}

} // namespace

@implementation MPSGraph (RecurrentOperations)

- (NSArray*)LSTMWithSourceTensor:(MPSGraphTensor*)source
                 recurrentWeight:(MPSGraphTensor*)recurrentWeight
                     inputWeight:(MPSGraphTensor*)inputWeight
                            bias:(MPSGraphTensor*)bias
                       initState:(MPSGraphTensor*)state
                        initCell:(MPSGraphTensor*)cell
                      descriptor:(MPSGraphLSTMDescriptor*)descriptor
                            name:(NSString*)name {
  const auto directions = directions_of(descriptor, __func__);
  Inputs operands{source, recurrentWeight, inputWeight, bias, state, cell};
  const Expression expression = [directions](const Tensors& inputs) {
    std::vector<Tensors> parts;
    for (const auto number : c10::irange(directions)) {
      parts.push_back(forward(Direction(inputs, number, directions)));
    }
    return joined(parts, {-1, -1, -1}, inputs[0].scalar_type());
  };
  const auto without_gaps = without_nil(operands, expression);
  return add_operations(self, "LSTM", operands, 3, name, without_gaps);
}

- (NSArray*)LSTMGradientsWithSourceTensor:(MPSGraphTensor*)source
                          recurrentWeight:(MPSGraphTensor*)recurrentWeight
                           sourceGradient:(MPSGraphTensor*)gradient
                                   zState:(MPSGraphTensor*)gates
                            cellOutputFwd:(MPSGraphTensor*)cells
                            stateGradient:(MPSGraphTensor*)stateGradient
                             cellGradient:(MPSGraphTensor*)cellGradient
                              inputWeight:(MPSGraphTensor*)inputWeight
                                     bias:(MPSGraphTensor*)bias
                                initState:(MPSGraphTensor*)state
                                 initCell:(MPSGraphTensor*)cell
                                     mask:(MPSGraphTensor*)mask
                                 peephole:(MPSGraphTensor*)peephole
                               descriptor:(MPSGraphLSTMDescriptor*)descriptor
                                     name:(NSString*)name {
  const auto directions = directions_of(descriptor, __func__);
  if (mask != nil || peephole != nil) {
    unsupported("%s with a mask or a peephole vector", __func__);
  }
  Inputs operands{
      source, recurrentWeight, inputWeight, bias, state, cell, gradient, gates, cells, stateGradient, cellGradient};
  const Expression expression = [directions](const Tensors& inputs) { return gradients(inputs, directions); };
  const auto without_gaps = without_nil(operands, expression);
  return add_operations(self, "LSTM gradients", operands, bias ? 6 : 5, name, without_gaps);
}

@end
