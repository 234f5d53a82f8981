#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSCommandGraphGradients.h>

#include <mutex>
#include <unordered_map>
#include <utility>

namespace at::mps {

using TensorPtr = MPSUsedTensor::TensorPtr;

TensorPtr MPSWrittenGradients::Gradient::tensorOfAnother() const {
  auto living = tensor.lock();
  return living && living->grad().getIntrusivePtr() != gradient ? living : TensorPtr();
}

void MPSWrittenGradients::add(Gradient gradient) {
  if (tensors_.insert(gradient.tensor._unsafe_get_target()).second) {
    gradients_.push_back(std::move(gradient));
  }
}

void MPSWrittenGradients::addPart(const MPSWrittenGradients& part) {
  for (const auto& gradient : part.gradients_) {
    if (!gradient.tensor.expired() && !gradient.tensorOfAnother()) {
      add(gradient);
    }
  }
}

void MPSWrittenGradients::add(const MPSCommandGraphInputs& inputs) {
  const auto is_result = [](const auto& tensor) { return tensor.kind == MPSCommandGraphInputs::Kind::RESULT; };
  std::vector<TensorPtr> with_gradient;
  for (const auto& tensor : inputs.tensors()) {
    auto living = is_result(tensor) ? TensorPtr() : tensor.was.living();
    if (living && living->grad().defined()) {
      with_gradient.push_back(std::move(living));
    }
  }
  if (with_gradient.empty()) {
    return;
  }
  std::unordered_map<const TensorImpl*, bool> written;
  for (const auto& tensor : inputs.tensors()) {
    if (tensor.is_written) {
      written.emplace(tensor.was.impl(), is_result(tensor));
    }
  }
  for (const auto& living : with_gradient) {
    const auto gradient = written.find(living->grad().unsafeGetTensorImpl());
    if (gradient != written.end()) {
      const Kind made = written.count(living.get()) > 0 ? Kind::USED : Kind::MADE;
      add({MPSUsedTensor::WeakPtr(living), living->grad().getIntrusivePtr(), gradient->second ? made : Kind::WRITTEN});
    }
  }
}

void MPSWrittenGradients::check() const {
  for (const auto& gradient : gradients_) {
    const auto tensor = gradient.tensorOfAnother();
    const bool is_replaced =
        tensor && (gradient.kind == Kind::WRITTEN || (gradient.kind == Kind::MADE && tensor->grad().defined()));
    TORCH_CHECK(!is_replaced,
                "torch.mps graph replay: the .grad of the ",
                typeMetaToScalarType(tensor->dtype()),
                " tensor of shape ",
                tensor->sizes(),
                tensor->grad().defined() ? " was replaced" : " was set to None",
                " after the capture, and the graph would write to the old one, which nothing reads. ",
                gradient.kind == Kind::MADE
                    ? "Set it to None before each replay"
                    : "Use zero_grad(set_to_none=False), call zero_grad() in the captured block",
                ", or capture again.");
  }
}

void MPSWrittenGradients::giveBack() const {
  // Several threads may replay graphs of the same tensors.
  static std::mutex mutex;
  for (const auto& gradient : gradients_) {
    Tensor before; // freed without the lock
    std::lock_guard<std::mutex> lock(mutex);
    const auto tensor = gradient.tensorOfAnother();
    if (tensor && gradient.kind != Kind::WRITTEN) {
      before = std::exchange(tensor->mutable_grad(), Tensor(gradient.gradient));
    }
  }
}

} // namespace at::mps
