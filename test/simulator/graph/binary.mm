// Operations on each pair or triple of elements.
#include "graph/elementwise.h"
#include "graph/operation.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

MPSGraphTensor* add_binary(MPSGraph* graph,
                           const char* kind,
                           MPSGraphTensor* left,
                           MPSGraphTensor* right,
                           bool compares,
                           NSString* name,
                           SingleExpression expression,
                           const char* method = __builtin_FUNCTION()) {
  check_same_type(kind, {left, right});
  const at::ScalarType type = compares ? at::kBool : scalar_type_of(left);
  return add_elementwise_operation(graph, kind, {left, right}, type, name, std::move(expression), true, method);
}

at::Tensor difference(const at::Tensor& left, const at::Tensor& right) {
  // ATen has no difference of booleans; with one bit it equals the exclusive or.
  return left.scalar_type() == at::kBool ? at::logical_xor(left, right) : at::sub(left, right);
}

} // namespace

#define ELEMENT_OPERATION(method, kind, compares, ...)                                                          \
  -(MPSGraphTensor*)method##WithPrimaryTensor : (MPSGraphTensor*)primary secondaryTensor                        \
      : (MPSGraphTensor*)secondary name : (NSString*)name {                                                     \
    return add_binary(self, kind, primary, secondary, compares, name, [](const Tensors& inputs) -> at::Tensor { \
      const at::Tensor& x = inputs[0];                                                                          \
      const at::Tensor& y = inputs[1];                                                                          \
      return __VA_ARGS__;                                                                                       \
    });                                                                                                         \
  }

#define BINARY_OPERATION(method, kind, ...) ELEMENT_OPERATION(method, kind, false, __VA_ARGS__)
#define COMPARISON(method, kind, ...) ELEMENT_OPERATION(method, kind, true, __VA_ARGS__)

@implementation MPSGraph (BinaryOperations)

BINARY_OPERATION(addition, "addition", at::add(x, y))
BINARY_OPERATION(subtraction, "subtraction", difference(x, y))
BINARY_OPERATION(multiplication, "multiplication", at::mul(x, y))
BINARY_OPERATION(division, "division", graph::quotient(x, y))
BINARY_OPERATION(power, "power", at::pow(x, y))
BINARY_OPERATION(atan2, "atan2", at::atan2(x, y).to(x.scalar_type()))
BINARY_OPERATION(minimum, "minimum", minimum_number(x, y))
BINARY_OPERATION(maximum, "maximum", maximum_number(x, y))
BINARY_OPERATION(minimumWithNaNPropagation, "minimum_nan", at::minimum(x, y))
BINARY_OPERATION(maximumWithNaNPropagation, "maximum_nan", at::maximum(x, y))
COMPARISON(equal, "equal", at::eq(x, y))
COMPARISON(notEqual, "not_equal", at::ne(x, y))
COMPARISON(lessThan, "less_than", at::lt(x, y))
COMPARISON(lessThanOrEqualTo, "less_than_or_equal", at::le(x, y))
COMPARISON(greaterThan, "greater_than", at::gt(x, y))
COMPARISON(greaterThanOrEqualTo, "greater_than_or_equal", at::ge(x, y))
BINARY_OPERATION(logicalAND, "logical_and", at::logical_and(x, y).to(x.scalar_type()))
BINARY_OPERATION(logicalOR, "logical_or", at::logical_or(x, y).to(x.scalar_type()))
BINARY_OPERATION(logicalXOR, "logical_xor", at::logical_xor(x, y).to(x.scalar_type()))

- (MPSGraphTensor*)selectWithPredicateTensor:(MPSGraphTensor*)predicateTensor
                         truePredicateTensor:(MPSGraphTensor*)truePredicateTensor
                        falsePredicateTensor:(MPSGraphTensor*)falsePredicateTensor
                                        name:(NSString*)name {
  check_same_type("select", {truePredicateTensor, falsePredicateTensor});
  return add_elementwise_operation(
      self,
      "select",
      {predicateTensor, truePredicateTensor, falsePredicateTensor},
      scalar_type_of(truePredicateTensor),
      name,
      [](const Tensors& inputs) { return at::where(as_predicate(inputs[0]), inputs[1], inputs[2]); });
}

- (MPSGraphTensor*)clampWithTensor:(MPSGraphTensor*)tensor
                    minValueTensor:(MPSGraphTensor*)minValueTensor
                    maxValueTensor:(MPSGraphTensor*)maxValueTensor
                              name:(NSString*)name {
  check_same_type("clamp", {tensor, minValueTensor, maxValueTensor});
  return add_elementwise_operation(
      self, "clamp", {tensor, minValueTensor, maxValueTensor}, scalar_type_of(tensor), name, [](const Tensors& inputs) {
        return minimum_number(maximum_number(inputs[0], inputs[1]), inputs[2]);
      });
}

@end
