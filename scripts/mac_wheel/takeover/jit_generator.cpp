#include "jit_generator.h"

#include <ATen/mps/MPSGeneratorImpl.h>
#include <c10/core/Device.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <optional>

namespace torch_mps_graph {
namespace {

constexpr const char* kSchema = "aten::Generator(*, Device? device=None, int? seed=None) -> Generator";

using OperatorPointer = std::shared_ptr<torch::jit::Operator>;

// For devices other than MPS the official operator does it.
torch::jit::Operation generatorOperation(OperatorPointer official) {
  return [official = std::move(official)](torch::jit::Stack& stack) {
    const auto device = torch::jit::peek(stack, 0, 2).toOptional<c10::Device>();
    if (!device || !device->is_mps()) {
      official->getOperation()(stack);
      return;
    }
    const auto seed = torch::jit::pop(stack).toOptional<int64_t>();
    torch::jit::drop(stack, 1);
    torch::jit::push(
        stack,
        seed ? at::mps::detail::createMPSGenerator(*seed) : at::mps::detail::createMPSGenerator());
  };
}

} // namespace

struct JitGenerator::Official {
  OperatorPointer operation;
};

JitGenerator::JitGenerator() {
  OperatorPointer official;
  for (const auto& candidate : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::Generator"))) {
    if (!candidate->isC10Op()) {
      official = candidate;
    }
  }
  TORCH_CHECK(official != nullptr, "TorchScript has no operator ", kSchema);
  torch::jit::deregisterOperator(official->schema());
  official_ = std::make_unique<Official>(Official{official});
  torch::jit::registerOperator(
      torch::jit::Operator(kSchema, generatorOperation(official), c10::AliasAnalysisKind::FROM_SCHEMA));
}

JitGenerator::~JitGenerator() {
  if (official_) {
    torch::jit::deregisterOperator(official_->operation->schema());
    torch::jit::registerOperator(torch::jit::Operator(*official_->operation));
  }
}

void JitGenerator::keep() noexcept {
  official_.reset();
}

} // namespace torch_mps_graph
