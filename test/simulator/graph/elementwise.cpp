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

#include <cstdint>
#include <limits>

namespace mps_simulator::graph {

namespace {

template <typename Integer, typename Number>
Integer saturate(Number number) {
  // The largest integer may be no such number: compare with the power of two
  // above it.
  constexpr Number limit = Number(2) * static_cast<Number>(uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
  constexpr auto lowest = static_cast<Number>(std::numeric_limits<Integer>::lowest());
  const bool inside = number > lowest && number < limit;
  const Integer outside = number >= limit ? std::numeric_limits<Integer>::max()
      : number <= lowest                  ? std::numeric_limits<Integer>::lowest()
                                          : Integer(0);
  return inside ? static_cast<Integer>(inside ? number : Number(0)) : outside;
}

template <typename Integer, typename Number>
at::Tensor saturate_each(const at::Tensor& source, at::ScalarType type) {
  const at::Tensor result = at::empty(source.sizes(), source.options().dtype(type));
  const auto* in = source.const_data_ptr<Number>();
  auto* out = result.mutable_data_ptr<Integer>();
  const int64_t count = source.numel();
  for (int64_t i = 0; i < count; i++) {
    out[i] = saturate<Integer>(in[i]);
  }
  return result;
}

template <typename Integer>
at::Tensor saturate_all(const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.scalar_type() == at::kDouble) {
    return saturate_each<Integer, double>(tensor.contiguous(), type);
  }
  return saturate_each<Integer, float>(tensor.to(at::kFloat).contiguous(), type);
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
