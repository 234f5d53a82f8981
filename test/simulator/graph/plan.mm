#include "graph/inference.h"
#include "graph/plan.h"
#include "support/error.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace mps_simulator::graph {

namespace {

class PlanMaker {
 public:
  PlanMaker(const std::vector<MPSGraphTensor*>& feeds, const std::vector<MPSGraphTensor*>& targets)
      : plan_(std::make_shared<Plan>()) {
    for (MPSGraphTensor* feed : feeds) {
      fed_.insert(feed);
    }
    for (MPSGraphTensor* target : targets) {
      visit(target);
    }
    for (MPSGraphTensor* feed : feeds) {
      const auto found = slots_.find(feed);
      plan_->feeds.push_back(found == slots_.end() ? Plan::unused : found->second);
    }
    for (MPSGraphTensor* target : targets) {
      plan_->targets.push_back(slots_.at(target));
    }
    mark_last_uses();
  }

  std::shared_ptr<const Plan> take() {
    return std::move(plan_);
  }

 private:
  uint32_t slot(MPSGraphTensor* tensor) {
    const auto [entry, added] = slots_.emplace(tensor, plan_->slots);
    plan_->slots += added;
    return entry->second;
  }

  // Depth first without recursion: graphs of unrolled loops are deep.
  void visit(MPSGraphTensor* target) {
    std::vector<MPSGraphTensor*> stack{target};
    while (!stack.empty()) {
      MPSGraphTensor* tensor = stack.back();
      if (fed_.count(tensor)) {
        slot(tensor);
        stack.pop_back();
        continue;
      }
      MPSGraphOperation* operation = tensor->_producer;
      if (done_.count(operation)) {
        stack.pop_back();
        continue;
      }
      if (!operation->_node->expression) {
        violation("-[MPSGraph]: no data is fed for the placeholder %s", describe(tensor).c_str());
      }
      bool ready = true;
      for (MPSGraphTensor* input : operation->_inputs) {
        if (!fed_.count(input) && !done_.count(input->_producer)) {
          stack.push_back(input);
          ready = false;
        }
      }
      if (ready) {
        stack.pop_back();
        done_.insert(operation);
        add_step(operation);
      }
    }
  }

  void add_step(MPSGraphOperation* operation) {
    Step step;
    step.node = operation->_node;
    for (MPSGraphTensor* input : operation->_inputs) {
      step.inputs.push_back(slot(input));
    }
    for (MPSGraphTensor* output : operation->_outputs) {
      // A fed output keeps the fed value: its computed value is not used.
      step.outputs.push_back(fed_.count(output) ? plan_->slots++ : slot(output));
      step.types.push_back(output->_type.type);
    }
    plan_->steps.push_back(std::move(step));
  }

  void mark_last_uses() {
    std::set<uint32_t> needed(plan_->targets.begin(), plan_->targets.end());
    for (auto step = plan_->steps.rbegin(); step != plan_->steps.rend(); ++step) {
      for (const auto* slots : {&step->inputs, &step->outputs}) {
        for (const uint32_t used : *slots) {
          if (needed.insert(used).second) {
            step->last_uses.push_back(used);
          }
        }
      }
    }
  }

  std::shared_ptr<Plan> plan_;
  std::unordered_set<MPSGraphTensor*> fed_;
  std::unordered_set<MPSGraphOperation*> done_;
  std::unordered_map<MPSGraphTensor*, uint32_t> slots_;
};

bool is_narrow(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

// The values while a plan runs. Between fused operations half and bfloat have the precision of float. Other readers
// get a rounded copy, so that a result does not depend on the order of the operations, which Apple does not promise.
class Values {
 public:
  explicit Values(size_t slots) : values_(slots) {}

  void set(uint32_t slot, at::Tensor tensor) {
    const auto type = tensor.scalar_type();
    values_[slot] = {std::move(tensor), {}, type};
  }

  void set_fused(uint32_t slot, at::Tensor tensor, at::ScalarType type) {
    const auto declared = is_narrow(type) && tensor.scalar_type() == at::kFloat ? type : tensor.scalar_type();
    values_[slot] = {std::move(tensor), {}, declared};
  }

  const at::Tensor& get(uint32_t slot) {
    Value& value = values_[slot];
    if (value.tensor.scalar_type() == value.type) {
      return value.tensor;
    }
    if (!value.rounded.defined()) {
      value.rounded = value.tensor.to(value.type);
    }
    return value.rounded;
  }

  at::Tensor get_fused(uint32_t slot) const {
    const Value& value = values_[slot];
    return is_narrow(value.type) ? value.tensor.to(at::kFloat) : value.tensor;
  }

  void forget(uint32_t slot) {
    values_[slot] = {};
  }

 private:
  struct Value {
    at::Tensor tensor;
    at::Tensor rounded; // made when it is needed
    at::ScalarType type = at::ScalarType::Undefined; // as declared; the tensor may be wider
  };
  std::vector<Value> values_;
};

void run_step(const Step& step, Values& values) {
  const bool fused = step.node->fused;
  Tensors inputs;
  inputs.reserve(step.inputs.size());
  for (const uint32_t input : step.inputs) {
    inputs.push_back(fused ? values.get_fused(input) : values.get(input));
  }
  Tensors outputs;
  try {
    outputs = step.node->expression(inputs);
  } catch (c10::Error& error) {
    error.add_context(std::string("while the GPU ran the MPSGraph operation '") + step.node->kind + "'");
    throw;
  }
  TORCH_INTERNAL_ASSERT(outputs.size() == step.outputs.size());
  for (size_t i = 0; i < outputs.size(); i++) {
    if (fused) {
      values.set_fused(step.outputs[i], std::move(outputs[i]), step.types[i]);
    } else {
      values.set(step.outputs[i], std::move(outputs[i]));
    }
  }
}

} // namespace

Tensors Plan::run(Tensors fed) const {
  const ComputingGuard guard;
  Values values(slots);
  for (size_t i = 0; i < feeds.size(); i++) {
    if (feeds[i] != unused) {
      values.set(feeds[i], std::move(fed[i]));
    }
  }
  for (const Step& step : steps) {
    run_step(step, values);
    for (const uint32_t used : step.last_uses) {
      values.forget(used);
    }
  }
  Tensors results;
  results.reserve(targets.size());
  for (const uint32_t target : targets) {
    results.push_back(values.get(target));
  }
  return results;
}

std::vector<TensorType> Plan::infer(const std::vector<TensorType>& feed_types) const {
  std::vector<InferenceInput> known(slots);
  for (size_t i = 0; i < feeds.size(); i++) {
    if (feeds[i] != unused) {
      known[feeds[i]].type = feed_types[i];
    }
  }
  for (const Step& step : steps) {
    std::vector<InferenceInput> inputs;
    inputs.reserve(step.inputs.size());
    for (const uint32_t input : step.inputs) {
      inputs.push_back(known[input]);
    }
    const auto types = infer_types(step.node->expression, inputs, step.outputs.size());
    for (size_t i = 0; i < types.size(); i++) {
      known[step.outputs[i]].type = types[i];
    }
    // A constant has no inputs and costs nothing to run.
    if (inputs.empty()) {
      const ComputingGuard guard;
      const Tensors values = step.node->expression({});
      for (size_t i = 0; i < values.size(); i++) {
        known[step.outputs[i]].value = values[i];
      }
    }
  }
  std::vector<TensorType> results;
  results.reserve(targets.size());
  for (const uint32_t target : targets) {
    results.push_back(known[target].type);
  }
  return results;
}

std::shared_ptr<const Plan> make_plan(const std::vector<MPSGraphTensor*>& feeds,
                                      const std::vector<MPSGraphTensor*>& targets) {
  return PlanMaker(feeds, targets).take();
}

size_t IdentifiersHash::operator()(const std::vector<uint32_t>& identifiers) const {
  size_t hash = identifiers.size();
  for (const uint32_t identifier : identifiers) {
    hash = hash * 0x9E3779B97F4A7C15ull + identifier + 1;
  }
  return hash;
}

std::shared_ptr<const Plan> cached_plan(MPSGraph* graph,
                                        const std::vector<MPSGraphTensor*>& feeds,
                                        const std::vector<MPSGraphTensor*>& targets) {
  std::vector<uint32_t> key;
  key.reserve(feeds.size() + targets.size() + 1);
  for (MPSGraphTensor* feed : feeds) {
    key.push_back(feed->_identifier);
  }
  key.push_back(Plan::unused); // between feeds and targets
  for (MPSGraphTensor* target : targets) {
    key.push_back(target->_identifier);
  }
  const std::lock_guard<std::mutex> lock(graph->_planMutex);
  std::shared_ptr<const Plan>& plan = graph->_plans[key];
  if (!plan) {
    plan = make_plan(feeds, targets);
  }
  return plan;
}

} // namespace mps_simulator::graph
