// A GPU sums half precision in single precision and rounds once at the end;
// many of ATen's CPU kernels either lack half types or round at every step.
#pragma once

#include <ATen/ATen.h>

namespace mps_simulator::graph {

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
