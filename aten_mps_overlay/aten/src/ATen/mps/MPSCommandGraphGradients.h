#pragma once

// The gradients that a graph writes. Plain C++.

#include <ATen/mps/MPSCommandGraphInputs.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace at::mps {

/// A tensor whose `.grad` a graph writes.
class MPSWrittenGradient {
 public:
  using TensorPtr = c10::intrusive_ptr<TensorImpl, UndefinedTensorImpl>;

  enum class Kind {
    // The gradient existed before the capture, which wrote to it.
    WRITTEN,
    // The capture made the gradient. A replay makes it the gradient again after
    // `.grad = None`.
    MADE,
    // The capture made the gradient and also wrote the tensor itself, as an
    // optimizer step does. A replay makes it the gradient again in place of any
    // other.
    USED,
  };

  MPSWrittenGradient(const TensorPtr& tensor, Kind kind);

  const TensorImpl* tensor() const {
    return tensor_._unsafe_get_target();
  }
  /// True if the tensor is alive and has the gradient that the graph writes.
  bool isCurrent() const;
  /// True if the tensor is alive and a replay must raise because of another
  /// gradient.
  bool replaced() const;
  void giveBack() const;
  std::string describe() const;

 private:
  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  TensorPtr gradient_;
  Kind kind_;
};

class MPSWrittenGradients {
 public:
  /// Adds those of a graph that the block replayed and still has.
  void addPart(const MPSWrittenGradients& part);
  /// Adds those that the block wrote itself.
  void add(const MPSCommandGraphInputs& inputs);
  /// Raises if a gradient was replaced.
  void check() const;
  /// Makes what the graph writes the gradients of the tensors again. Off the
  /// queue.
  void giveBack() const;

 private:
  void add(MPSWrittenGradient gradient);

  // Those of `gradients_`.
  std::unordered_set<const TensorImpl*> tensors_;
  std::vector<MPSWrittenGradient> gradients_;
};

} // namespace at::mps
