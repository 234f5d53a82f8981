// Parts of expressions on single elements that several families share.
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

} // namespace mps_simulator::graph
