#include "graph/elementwise.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

namespace mps_simulator::graph {

namespace {

template <typename Integer>
Integer saturate(double number) {
  if (std::isnan(number)) {
    return 0;
  }
  // The largest int64 is not a double: compare with the power of two above it.
  const double limit = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (number >= limit) {
    return std::numeric_limits<Integer>::max();
  }
  if (number <= static_cast<double>(std::numeric_limits<Integer>::lowest())) {
    return std::numeric_limits<Integer>::lowest();
  }
  return static_cast<Integer>(number);
}

template <typename Integer>
at::Tensor saturate_all(const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor source = tensor.to(at::kDouble).contiguous();
  const at::Tensor result = at::empty(source.sizes(), source.options().dtype(type));
  const double* in = source.const_data_ptr<double>();
  Integer* out = result.mutable_data_ptr<Integer>();
  for (int64_t i = 0; i < source.numel(); i++) {
    out[i] = saturate<Integer>(in[i]);
  }
  return result;
}

at::Tensor to_integers(const at::Tensor& tensor, at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return saturate_all<int8_t>(tensor, type);
    case at::kShort:
      return saturate_all<int16_t>(tensor, type);
    case at::kInt:
      return saturate_all<int32_t>(tensor, type);
    case at::kLong:
      return saturate_all<int64_t>(tensor, type);
    case at::kByte:
      return saturate_all<uint8_t>(tensor, type);
    case at::kUInt16:
      return saturate_all<uint16_t>(tensor, type);
    case at::kUInt32:
      return saturate_all<uint32_t>(tensor, type);
    case at::kUInt64:
      return saturate_all<uint64_t>(tensor, type);
    default:
      TORCH_CHECK(false, "not an integer type: ", type);
  }
}

} // namespace

at::Tensor convert(const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.scalar_type() == type) {
    return tensor;
  }
  if (tensor.is_complex() && !c10::isComplexType(type)) {
    return convert(at::real(tensor), type);
  }
  if (tensor.is_floating_point() && c10::isIntegralType(type, /*includeBool=*/false)) {
    return to_integers(tensor, type);
  }
  return tensor.to(type);
}

at::Tensor as_predicate(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool ? tensor : tensor.to(at::kBool);
}

at::Tensor quotient(const at::Tensor& dividend, const at::Tensor& divisor) {
  if (!c10::isIntegralType(dividend.scalar_type(), /*includeBool=*/true)) {
    return at::div(dividend, divisor);
  }
  // By zero and of the lowest number by -1 a processor traps.
  const at::Tensor harmless = divisor.eq(0).logical_or(divisor.eq(-1));
  const at::Tensor quotient = at::div(dividend, divisor.masked_fill(harmless, 1), "trunc");
  const at::Tensor negated = at::where(divisor.eq(-1), at::neg(quotient), quotient);
  return negated.masked_fill(divisor.eq(0), 0);
}

at::Tensor minimum_number(const at::Tensor& left, const at::Tensor& right) {
  return left.is_floating_point() ? at::fmin(left, right) : at::minimum(left, right);
}

at::Tensor maximum_number(const at::Tensor& left, const at::Tensor& right) {
  return left.is_floating_point() ? at::fmax(left, right) : at::maximum(left, right);
}

} // namespace mps_simulator::graph
