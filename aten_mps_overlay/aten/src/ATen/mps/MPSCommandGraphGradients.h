#pragma once

// The gradients that a graph writes. Plain C++.

#include <ATen/mps/MPSCommandGraphInputs.h>

#include <unordered_set>
#include <vector>

namespace at::mps {

/// The tensors whose `.grad` a graph writes.
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
  struct Gradient {
    MPSUsedTensor::WeakPtr tensor;
    MPSUsedTensor::TensorPtr gradient;
    Kind kind;

    /// Undefined if the tensor is gone, or has the gradient that the graph
    /// writes.
    MPSUsedTensor::TensorPtr tensorOfAnother() const;
  };

  void add(Gradient gradient);

  // Those of `gradients_`.
  std::unordered_set<const TensorImpl*> tensors_;
  std::vector<Gradient> gradients_;
};

} // namespace at::mps
