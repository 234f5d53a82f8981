// Parts of expressions that several families share.
#pragma once

#include <ATen/Tensor.h>

namespace mps_simulator::graph {

// Conversion as a GPU does it: numbers out of range saturate, NaN becomes zero.
at::Tensor convert(const at::Tensor& tensor, at::ScalarType type);

// A predicate of any element type as booleans.
at::Tensor as_predicate(const at::Tensor& tensor);

// Division of integers truncates; nothing traps.
at::Tensor quotient(const at::Tensor& dividend, const at::Tensor& divisor);

// Of two numbers the one that is not NaN.
at::Tensor minimum_number(const at::Tensor& left, const at::Tensor& right);
at::Tensor maximum_number(const at::Tensor& left, const at::Tensor& right);

// A GPU sums half precision in single precision and rounds once at the end;
// many of ATen's CPU kernels either lack half types or round at every step.
inline at::ScalarType computation_type(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
    case at::kBFloat16:
      return at::kFloat;
    case at::kComplexHalf:
      return at::kComplexFloat;
    default:
      return type;
  }
}

inline at::Tensor widen(const at::Tensor& tensor) {
  return tensor.to(computation_type(tensor.scalar_type()));
}

} // namespace mps_simulator::graph
