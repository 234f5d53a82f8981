#include "graph/inference.h"

#include "graph/gradient.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace mps_simulator::graph {

namespace {

thread_local bool samples_run = false;
// Where the samples lie whose values stand for unknown ones, and whether an expression asked for them.
thread_local std::vector<const void*> unknown_values;
thread_local bool unknown_values_read = false;
thread_local bool gradient_runs = false;

struct SampleGuard {
  SampleGuard() {
    samples_run = true;
  }
  ~SampleGuard() {
    samples_run = false;
    unknown_values.clear();
  }
};

// One zero that is seen everywhere.
at::Tensor sample(const InferenceInput& input, at::IntArrayRef sizes) {
  if (input.value) {
    return *input.value;
  }
  const at::Tensor zero = at::zeros({}, at::TensorOptions().dtype(input.type.type).device(at::kCPU));
  unknown_values.push_back(zero.const_data_ptr());
  return zero.expand(sizes);
}

Tensors run_on_samples(const Expression& expression,
                       const std::vector<InferenceInput>& inputs,
                       const std::vector<std::vector<int64_t>>& sizes) {
  const SampleGuard guard;
  Tensors samples;
  samples.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    samples.push_back(sample(inputs[i], sizes[i]));
  }
  return expression(samples);
}

std::vector<std::vector<int64_t>> sizes_with(const std::vector<InferenceInput>& inputs,
                                             int64_t unknown_size,
                                             int64_t unknown_rank) {
  std::vector<std::vector<int64_t>> result;
  result.reserve(inputs.size());
  for (const InferenceInput& input : inputs) {
    if (!input.type.ranked) {
      result.emplace_back(unknown_rank, 1);
      continue;
    }
    result.push_back(input.type.sizes);
    for (int64_t& size : result.back()) {
      size = size < 0 ? unknown_size : size;
    }
  }
  return result;
}

std::vector<TensorType> types_of(const Tensors& tensors, bool ranked) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    TensorType type;
    type.type = tensor.scalar_type();
    type.ranked = ranked;
    if (ranked) {
      type.sizes = tensor.sizes().vec();
    }
    types.push_back(std::move(type));
  }
  return types;
}

// Only the element types can be found; any rank that the expression accepts is tried.
std::vector<TensorType> infer_unranked(const Expression& expression,
                                       const std::vector<InferenceInput>& inputs,
                                       size_t outputs) {
  const AttemptGuard attempt;
  for (const int64_t rank : {4, 1, 2, 3, 5, 0}) {
    try {
      return types_of(run_on_samples(expression, inputs, sizes_with(inputs, 1, rank)), false);
    } catch (const std::exception&) { // not all of ATen's are c10::Error
      continue;
    }
  }
  TensorType type;
  type.type = inputs[0].type.type;
  return std::vector<TensorType>(outputs, type);
}

} // namespace

bool is_sample(const at::Tensor&) {
  return samples_run;
}

at::Tensor gradient_of(const std::function<at::Tensor(const at::Tensor&)>& function,
                       const at::Tensor& input,
                       const at::Tensor& incoming) {
  if (samples_run) {
    return at::empty(input.sizes(), input.options());
  }
  // Autograd is off where expressions run: ComputingGuard.
  const c10::impl::ForceDispatchKeyGuard dispatch(c10::default_included_set, c10::default_excluded_set);
  const c10::AutoGradMode on(true);
  gradient_runs = true;
  const auto done = c10::make_scope_exit([] { gradient_runs = false; });
  const at::Tensor leaf = input.detach().set_requires_grad(true);
  at::Tensor value = function(leaf);
  for (int64_t axis = 0; axis < value.dim(); axis++) {
    value = value.narrow(axis, 0, incoming.size(axis));
  }
  return torch::autograd::grad({value}, {leaf}, {incoming.to(value.scalar_type())})[0];
}

bool is_gradient_running() {
  return gradient_runs;
}

void note_reading(const at::Tensor& tensor) {
  unknown_values_read |= std::count(unknown_values.begin(), unknown_values.end(), tensor.const_data_ptr()) > 0;
}

namespace {

std::vector<TensorType> infer_from_types(const Expression& expression,
                                         const std::vector<InferenceInput>& inputs,
                                         size_t outputs) {
  const bool ranked =
      std::all_of(inputs.begin(), inputs.end(), [](const InferenceInput& input) { return input.type.ranked; });
  if (!ranked) {
    return infer_unranked(expression, inputs, outputs);
  }
  const bool known =
      std::all_of(inputs.begin(), inputs.end(), [](const InferenceInput& input) { return input.type.is_static(); });
  if (known) {
    return types_of(run_on_samples(expression, inputs, sizes_with(inputs, 0, 0)), true);
  }
  try {
    const AttemptGuard attempt;
    // A dimension that follows the unknown ones is unknown too.
    auto types = types_of(run_on_samples(expression, inputs, sizes_with(inputs, 2, 0)), true);
    const auto others = types_of(run_on_samples(expression, inputs, sizes_with(inputs, 4, 0)), true);
    for (size_t i = 0; i < types.size(); i++) {
      types[i].ranked = types[i].sizes.size() == others[i].sizes.size();
      for (size_t axis = 0; types[i].ranked && axis < types[i].sizes.size(); axis++) {
        if (types[i].sizes[axis] != others[i].sizes[axis]) {
          types[i].sizes[axis] = -1;
        }
      }
    }
    return types;
  } catch (const std::exception&) {
    return infer_unranked(expression, inputs, outputs);
  }
}

} // namespace

std::vector<TensorType> infer_types(const Expression& expression,
                                    const std::vector<InferenceInput>& inputs,
                                    size_t outputs) {
  const ComputingGuard guard;
  unknown_values_read = false;
  std::vector<TensorType> types;
  try {
    types = infer_from_types(expression, inputs, outputs);
  } catch (const std::exception&) {
    if (!unknown_values_read) {
      throw;
    }
    types = infer_unranked(expression, inputs, outputs);
  }
  // A shape made of the stand-ins for unknown values means nothing: drop it.
  if (unknown_values_read) {
    for (TensorType& type : types) {
      type.ranked = false;
      type.sizes.clear();
    }
  }
  return types;
}

} // namespace mps_simulator::graph
