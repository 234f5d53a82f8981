// Operations on each element of one tensor; activation functions.
#include "graph/elementwise.h"
#include "graph/operation.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

// For functions of real or complex numbers: integers keep their type.
template <typename Function>
at::Tensor on_reals(const at::Tensor& tensor, Function function) {
  if (tensor.is_floating_point() || tensor.is_complex()) {
    return function(tensor);
  }
  return convert(function(tensor.to(at::kFloat)), tensor.scalar_type());
}

// Types without fractions stay as they are.
template <typename Function>
at::Tensor on_fractions(const at::Tensor& tensor, Function function) {
  return tensor.is_floating_point() ? function(tensor) : tensor;
}

at::ScalarType boolean(MPSGraphTensor*) {
  return at::kBool;
}

// Of the parts of a complex number.
at::ScalarType part_type(MPSGraphTensor* tensor) {
  return c10::toRealValueType(scalar_type_of(tensor));
}

at::Tensor round_half_away(const at::Tensor& tensor) {
  // Adding a half could round up the number just below a half.
  const at::Tensor whole = at::trunc(tensor);
  const at::Tensor fraction = tensor.sub(whole);
  return whole.add(at::sign(fraction).mul(at::abs(fraction).ge(0.5))).copysign(tensor);
}

} // namespace

#define ELEMENT_OPERATION(method, kind, result_type, ...)                                                        \
  -(MPSGraphTensor*)method : (MPSGraphTensor*)tensor name : (NSString*)name {                                    \
    const auto type = result_type(tensor);                                                                       \
    return add_elementwise_operation(self, kind, {tensor}, type, name, [](const Tensors& inputs) -> at::Tensor { \
      const at::Tensor& x = inputs[0];                                                                           \
      return __VA_ARGS__;                                                                                        \
    });                                                                                                          \
  }

#define UNARY_OPERATION(method, kind, ...) ELEMENT_OPERATION(method, kind, scalar_type_of, __VA_ARGS__)
#define QUESTION(method, kind, ...) ELEMENT_OPERATION(method, kind, boolean, __VA_ARGS__)

#define REAL_OPERATION(method, kind, function) \
  UNARY_OPERATION(method, kind, on_reals(x, [](const at::Tensor& number) { return function(number); }))

#define REAL_OPERATION_OF_ATEN(name) REAL_OPERATION(name##WithTensor, #name, at::name)

#define ROUNDING_OPERATION(method, kind, function) \
  UNARY_OPERATION(method, kind, on_fractions(x, [](const at::Tensor& number) { return function(number); }))

@implementation MPSGraph (UnaryOperations)

UNARY_OPERATION(identityWithTensor, "identity", x)
UNARY_OPERATION(absoluteWithTensor, "absolute", x.scalar_type() == at::kBool ? x : at::abs(x))
UNARY_OPERATION(negativeWithTensor, "negative", x.scalar_type() == at::kBool ? x : at::neg(x))
UNARY_OPERATION(signWithTensor, "sign", x.is_complex() ? at::sgn(x) : at::sign(x))
UNARY_OPERATION(signbitWithTensor, "signbit", at::signbit(x).to(x.scalar_type()))
UNARY_OPERATION(squareWithTensor, "square", x.mul(x))
UNARY_OPERATION(notWithTensor, "not", at::logical_not(x).to(x.scalar_type()))
QUESTION(isNaNWithTensor, "is_nan", at::isnan(x))
QUESTION(isInfiniteWithTensor, "is_infinite", at::isinf(x))

ROUNDING_OPERATION(ceilWithTensor, "ceil", at::ceil)
ROUNDING_OPERATION(floorWithTensor, "floor", at::floor)
ROUNDING_OPERATION(truncateWithTensor, "truncate", at::trunc)
ROUNDING_OPERATION(roundWithTensor, "round", round_half_away)

MPS_FOR_EACH(REAL_OPERATION_OF_ATEN,
             acos,
             acosh,
             asin,
             asinh,
             atan,
             atanh,
             cos,
             cosh,
             erf,
             reciprocal,
             sin,
             sinh,
             tan,
             tanh)
REAL_OPERATION(exponentWithTensor, "exponent", at::exp)
REAL_OPERATION(exponentBase2WithTensor, "exponent_base_2", at::exp2)
REAL_OPERATION(logarithmWithTensor, "logarithm", at::log)
REAL_OPERATION(logarithmBase2WithTensor, "logarithm_base_2", at::log2)
REAL_OPERATION(logarithmBase10WithTensor, "logarithm_base_10", at::log10)
REAL_OPERATION(reciprocalSquareRootWithTensor, "reciprocal_square_root", at::rsqrt)
REAL_OPERATION(reverseSquareRootWithTensor, "reverse_square_root", at::rsqrt)
REAL_OPERATION(squareRootWithTensor, "square_root", at::sqrt)

ELEMENT_OPERATION(realPartOfTensor, "real_part", part_type, x.is_complex() ? at::real(x) : x)
UNARY_OPERATION(conjugateWithTensor, "conjugate", at::conj_physical(x))

UNARY_OPERATION(reLUWithTensor, "relu", at::relu(x))
UNARY_OPERATION(sigmoidWithTensor, "sigmoid", at::sigmoid(x))
TENSOR_METHOD(add_alike_operation, softMaxWithTensor, axis, NSInteger, "softmax", at::softmax(x, a))

@end
