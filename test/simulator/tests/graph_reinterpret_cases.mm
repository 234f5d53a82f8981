// Reinterpreting casts. Run by test_graph_core.py.
#include "graph_cases.h"

CASE(graph_reinterprets_bytes) {
  // One and minus two, as IEEE 754 has them.
  const std::vector<float> numbers = {1, -2};
  const auto bits = apply<int32_t, float>({2, 1}, numbers, {2, 1}, 2, [](MPSGraph* graph, MPSGraphTensor* input) {
    return [graph reinterpretCastTensor:input toType:MPSDataTypeInt32 name:nil];
  });
  expect(bits, {0x3f800000, static_cast<int32_t>(0xc0000000)});
  const auto bytes = apply<uint8_t, float>({2, 1}, numbers, {2, 4}, 8, [](MPSGraph* graph, MPSGraphTensor* input) {
    MPSGraphTensor* result = [graph reinterpretCastTensor:input toType:MPSDataTypeUInt8 name:nil];
    // Known before anything runs.
    if (![result.shape isEqual:shape({2, 4})]) {
      fail("the last dimension did not become four times as long");
    }
    return result;
  });
  expect(bytes, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0});
}

CASE(graph_reinterprets_no_scalars) {
  expect_violation("a scalar has no last dimension", [] {
    MPSGraph* graph = new_graph();
    [graph reinterpretCastTensor:placeholder<float>(graph, {}) toType:MPSDataTypeUInt8 name:nil];
  });
}
