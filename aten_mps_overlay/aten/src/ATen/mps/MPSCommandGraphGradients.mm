#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSCommandGraphGradients.h>

#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace at::mps {

MPSWrittenGradient::MPSWrittenGradient(const TensorPtr& tensor, Kind kind)
    : tensor_(tensor), gradient_(tensor->grad().getIntrusivePtr()), kind_(kind) {}

bool MPSWrittenGradient::isCurrent() const {
  const auto tensor = tensor_.lock();
  return tensor && tensor->grad().getIntrusivePtr() == gradient_;
}

bool MPSWrittenGradient::replaced() const {
  const auto tensor = tensor_.lock();
  if (!tensor || tensor->grad().getIntrusivePtr() == gradient_) {
    return false;
  }
  return kind_ == Kind::WRITTEN || (kind_ == Kind::MADE && tensor->grad().defined());
}

void MPSWrittenGradient::giveBack() const {
  // Several threads may replay graphs of the same tensors.
  static std::mutex mutex;
  // Freed without the lock.
  Tensor before;
  const auto tensor = tensor_.lock();
  std::lock_guard<std::mutex> lock(mutex);
  if (tensor && kind_ != Kind::WRITTEN && tensor->grad().getIntrusivePtr() != gradient_) {
    before = std::exchange(tensor->mutable_grad(), Tensor(gradient_));
  }
}

std::string MPSWrittenGradient::describe() const {
  std::ostringstream text;
  if (const auto tensor = tensor_.lock()) {
    text << "the .grad of the " << typeMetaToScalarType(tensor->dtype()) << " tensor of shape " << tensor->sizes()
         << (tensor->grad().defined() ? " was replaced" : " was set to None");
  }
  return text.str();
}

void MPSWrittenGradients::add(MPSWrittenGradient gradient) {
  if (tensors_.insert(gradient.tensor()).second) {
    gradients_.push_back(std::move(gradient));
  }
}

void MPSWrittenGradients::addPart(const MPSWrittenGradients& part) {
  for (const auto& gradient : part.gradients_) {
    if (gradient.isCurrent()) {
      add(gradient);
    }
  }
}

void MPSWrittenGradients::add(const MPSCommandGraphInputs& inputs) {
  using Kind = MPSWrittenGradient::Kind;
  const auto is_result = [](const auto& tensor) { return tensor.kind == MPSCommandGraphInputs::Kind::RESULT; };
  std::vector<MPSUsedTensor::TensorPtr> with_gradient;
  for (const auto& tensor : inputs.tensors()) {
    auto living = is_result(tensor) ? MPSUsedTensor::TensorPtr() : tensor.was.living();
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
      add(MPSWrittenGradient(living, gradient->second ? made : Kind::WRITTEN));
    }
  }
}

void MPSWrittenGradients::check() const {
  for (const auto& gradient : gradients_) {
    TORCH_CHECK(!gradient.replaced(),
                "torch.mps graph replay: ",
                gradient.describe(),
                " after the capture, and the graph would write to the old one, which nothing reads. Use "
                "zero_grad(set_to_none=False), call zero_grad() in the captured block, or capture again.");
  }
}

void MPSWrittenGradients::giveBack() const {
  for (const auto& gradient : gradients_) {
    gradient.giveBack();
  }
}

} // namespace at::mps
