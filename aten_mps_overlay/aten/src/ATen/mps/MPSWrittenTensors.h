#pragma once

// What autograd must know of the tensors that a graph writes. Plain C++.

#include <ATen/core/TensorBase.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <string>
#include <vector>

namespace at::mps {

/// A tensor whose `.grad` a graph writes.
class MPSWrittenGradient {
 public:
  using TensorPtr = c10::intrusive_ptr<TensorImpl, UndefinedTensorImpl>;

  enum class Kind {
    // existed before the capture, which wrote to it
    WRITTEN,
    // the capture made it: it becomes the gradient again after `.grad = None`
    MADE,
    // likewise, and the block also wrote the tensor itself, as an optimizer
    // step
    // does: it becomes the gradient again in place of any other
    USED,
  };

  MPSWrittenGradient(const TensorPtr& tensor, Kind kind);

  const TensorImpl* tensor() const {
    return tensor_._unsafe_get_target();
  }
  /// True when the tensor lives and the graph writes its gradient of now.
  bool isCurrent() const;
  /// True if the tensor lives and a replay must raise because its gradient is
  /// another one.
  bool replaced() const;
  /// Makes what the graph writes the gradient of the tensor again. Off the
  /// queue.
  void giveBack() const;
  std::string describe() const;

 private:
  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  TensorPtr gradient_;
  Kind kind_;
};

/// The tensors that a graph writes. Autograd compares their version counters to
/// notice that a tensor that it saved was changed.
class MPSWrittenTensors {
 public:
  /// Takes counters, of which several may be the same. Leaves out those that
  /// nothing else has. Of several gradients of a tensor the last counts.
  void set(
      std::vector<c10::VariableVersion> versions,
      std::vector<MPSWrittenGradient> gradients);
  const std::vector<MPSWrittenGradient>& gradients() const {
    return gradients_;
  }
  /// Raises when a gradient was replaced.
  void check() const;
  void giveBackGradients() const;
  void countReplay() const;

 private:
  mutable std::vector<c10::VariableVersion> versions_;
  std::vector<MPSWrittenGradient> gradients_;
};

} // namespace at::mps
