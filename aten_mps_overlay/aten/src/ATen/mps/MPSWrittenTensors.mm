#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSWrittenTensors.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>
#include <unordered_set>
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
  // graphs of the same tensors may be replayed by several threads
  static std::mutex mutex;
  // freed without the lock
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

// The address of the shared counter.
static const void* addressOf(const c10::VariableVersion& version) {
  const void* counter = nullptr;
  static_assert(sizeof(version) == sizeof(counter), "a VariableVersion is a pointer to its counter");
  std::memcpy(&counter, &version, sizeof(counter));
  return counter;
}

void MPSWrittenTensors::set(std::vector<c10::VariableVersion> versions, std::vector<MPSWrittenGradient> gradients) {
  std::unordered_set<const void*> known;
  versions.erase(std::remove_if(versions.begin(),
                                versions.end(),
                                [&](const auto& version) { return !known.insert(addressOf(version)).second; }),
                 versions.end());
  versions.erase(std::remove_if(versions.begin(), versions.end(), [](const auto& version) { return version.unique(); }),
                 versions.end());
  std::unordered_set<const TensorImpl*> with_gradient;
  gradients.erase(std::remove_if(gradients.begin(),
                                 gradients.end(),
                                 [&](const auto& gradient) { return !with_gradient.insert(gradient.tensor()).second; }),
                  gradients.end());
  versions_ = std::move(versions);
  gradients_ = std::move(gradients);
}

void MPSWrittenTensors::check() const {
  for (const auto& gradient : gradients_) {
    TORCH_CHECK(!gradient.replaced(),
                "torch.mps graph replay: ",
                gradient.describe(),
                " after the capture, and the graph would write to the old one, which nothing reads. Use "
                "zero_grad(set_to_none=False), call zero_grad() in the captured block, or capture again.");
  }
}

void MPSWrittenTensors::giveBackGradients() const {
  for (const auto& gradient : gradients_) {
    gradient.giveBack();
  }
}

void MPSWrittenTensors::countReplay() const {
  for (auto& version : versions_) {
    version.bump();
  }
}

} // namespace at::mps
