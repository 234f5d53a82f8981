// The core of MPSGraph through its own API. Run by test_graph_core.py.
#include "graph_cases.h"

#include <cmath>
#include <vector>

// --- building -------------------------------------------------------------

CASE(graph_rejects_tensors_that_do_not_fit) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* two = placeholder<float>(graph, {2});
  const auto expect_refused = [&](const char* part, MPSGraphTensor* other) {
    expect_violation(part, [&] { [graph additionWithPrimaryTensor:two secondaryTensor:other name:nil]; });
  };
  expect_refused("one element type", placeholder<int32_t>(graph, {2}));
  expect_refused("addition", placeholder<float>(graph, {3}));
  expect_refused("does not belong", placeholder<float>(new_graph(), {2}));
}

CASE(graph_builds_deep_graphs) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {1});
  MPSGraphTensor* one = [graph constantWithScalar:1 dataType:MPSDataTypeFloat32];
  MPSGraphTensor* output = input;
  constexpr int depth = 3000;
  for (int i = 0; i < depth; i++) {
    output = [graph additionWithPrimaryTensor:output secondaryTensor:one name:nil];
  }
  const Data<float> source({1}, {0.5f}), result({1}, {0});
  run(graph, {{input, source.data}}, {{output, result.data}});
  expect(result.values(), {depth + 0.5f});
}

// --- running --------------------------------------------------------------

CASE(graph_writes_over_its_own_feed) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {2, 3});
  MPSGraphTensor* output = [graph transposeTensor:input dimension:0 withDimension:1 name:nil];
  const Data<float> memory({2, 3}, {1, 2, 3, 4, 5, 6});
  MPSGraphTensorData* result = [[[MPSGraphTensorData alloc] initWithMTLBuffer:memory.buffer
                                                                        shape:shape({3, 2})
                                                                     dataType:MPSDataTypeFloat32] autorelease];
  run(graph, {{input, memory.data}}, {{output, result}});
  expect(memory.values(), {1, 4, 2, 5, 3, 6});
}

CASE(graph_names_what_is_fed_wrongly) {
  const auto expect_refused =
      [](const char* part, const std::vector<int64_t>& sizes, MPSGraphTensorData* fed, MPSGraphTensorData* result) {
        expect_violation(part, [&] {
          MPSGraph* graph = new_graph();
          MPSGraphTensor* input = placeholder<float>(graph, sizes, @"weights");
          run(graph, fed ? Feeds{{input, fed}} : Feeds{}, {{[graph squareWithTensor:input name:nil], result}});
        });
      };
  const Data<float> two({2}, {1, 2}), column({3, 1}, {1, 2, 3}), three({3}, {0, 0, 0});
  const Data<int32_t> integers({2}, {1, 2});
  expect_refused("'weights'", {2}, integers.data, two.data);
  expect_refused(
      "'weights' (placeholder 0) has the shape [2, -1], but is fed [3, 1]", {2, -1}, column.data, three.data);
  expect_refused("no data is fed for the placeholder 'weights'", {2}, nil, two.data);
  expect_refused("element type", {2}, two.data, integers.data);
}

CASE(graph_rejects_memory_that_is_too_small) {
  expect_violation("bytes", [] {
    const Data<float> small({2}, {1, 2});
    [[MPSGraphTensorData alloc] initWithMTLBuffer:small.buffer shape:shape({3}) dataType:MPSDataTypeFloat32];
  });
}

// --- executables ----------------------------------------------------------

namespace {

struct Difference {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* a = placeholder<float>(graph, {2}, @"a");
  MPSGraphTensor* b = placeholder<float>(graph, {2}, @"b");
  MPSGraphTensor* difference = [graph subtractionWithPrimaryTensor:a secondaryTensor:b name:nil];
  MPSGraphTensor* product = [graph multiplicationWithPrimaryTensor:a secondaryTensor:b name:nil];

  MPSGraphExecutable* compile() const {
    return ::compile(graph, @[ a, b ], @[ difference, product ]);
  }
};

} // namespace

CASE(graph_runs_executables_in_their_own_order) {
  const Difference graph;
  MPSGraphExecutable* executable = graph.compile();
  const Data<float> a({2}, {5, 7}), b({2}, {1, 2}), difference({2}, {0, 0}), product({2}, {0, 0});
  const Feeds feeds = {{graph.a, a.data}, {graph.b, b.data}};
  run(executable, feeds, {{graph.difference, difference.data}, {graph.product, product.data}});
  expect(difference.values(), {4, 5});
  expect(product.values(), {5, 14});
  // Without memory of the caller's it makes its own.
  NSArray<MPSGraphTensorData*>* made = run(executable, feeds, {});
  const NSUInteger place = [executable.targetTensors indexOfObject:graph.product];
  std::vector<float> values(2);
  [[made[place] mpsndarray] readBytes:values.data() strideBytes:nil];
  expect(values, {5, 14});
}

CASE(graph_checks_the_inputs_of_executables) {
  const Difference graph;
  MPSGraphExecutable* executable = graph.compile();
  const Data<float> good({2}, {5, 7}), wrong_shape({1}, {5});
  const Data<int32_t> wrong_type({2}, {5, 7});
  const auto encode = [&](NSArray* inputs, NSArray* results) { run(executable, inputs, results); };
  expect_violation("1 inputs are given for an executable with 2", [&] { encode(@[ good.data ], nil); });
  expect_violation("is fed [1]", [&] { encode(@[ good.data, wrong_shape.data ], nil); });
  expect_violation("is fed Int", [&] { encode(@[ good.data, wrong_type.data ], nil); });
  expect_violation("1 results are given", [&] { encode(@[ good.data, good.data ], @[ good.data ]); });
  expect_violation("but its memory Int", [&] { encode(@[ good.data, good.data ], @[ good.data, wrong_type.data ]); });
}

// --- operations that torch reaches in few ways ----------------------------

CASE(graph_casts_like_a_gpu) {
  const std::vector<float> numbers{-1.9f, 300, 3e10f, -3e10f, NAN, INFINITY};
  const auto cast = [](MPSDataType type) {
    return [type](MPSGraph* graph, MPSGraphTensor* input) { return [graph castTensor:input toType:type name:nil]; };
  };
  expect(apply<int32_t, float>({6}, numbers, {6}, 6, cast(MPSDataTypeInt32)),
         {-1, 300, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  expect(apply<uint8_t, float>({6}, numbers, {6}, 6, cast(MPSDataTypeUInt8)), {0, 255, 255, 0, 0, 255});
  expect(apply<int64_t, float>({6}, {-1, 1, 1e30f, -1e30f, NAN, INFINITY}, {6}, 6, cast(MPSDataTypeInt64)),
         {-1, 1, INT64_MAX, INT64_MIN, 0, INT64_MAX});
  expect(apply<uint8_t, int32_t>({3}, {-1, 256, 257}, {3}, 3, cast(MPSDataTypeUInt8)), {255, 0, 1});
}

CASE(graph_divides_integers_without_trap) {
  const auto quotients = apply_to_two<int32_t>(
      {7, -7, 5, INT32_MIN, 9}, {2, 2, 0, -1, -1}, 5, [](MPSGraph* graph, MPSGraphTensor* a, MPSGraphTensor* b) {
        return [graph divisionWithPrimaryTensor:a secondaryTensor:b name:nil];
      });
  expect(quotients, {3, -3, 0, INT32_MIN, -9});
}

// e^12 is out of range for half, but is an intermediate value within one kernel.
CASE(graph_rounds_half_precision_at_the_end_of_kernels) {
  const auto logarithm_of_exponential = [](bool other_kernel) {
    return apply<float, float>({1}, {12}, {1}, 1, [=](MPSGraph* graph, MPSGraphTensor* input) {
      MPSGraphTensor* half = [graph castTensor:input toType:MPSDataTypeFloat16 name:nil];
      MPSGraphTensor* exponential = [graph exponentWithTensor:half name:nil];
      if (other_kernel) {
        exponential = [graph cumulativeSumWithTensor:exponential axis:0 name:nil];
      }
      MPSGraphTensor* logarithm = [graph logarithmWithTensor:exponential name:nil];
      return [graph castTensor:[graph roundWithTensor:logarithm name:nil] toType:MPSDataTypeFloat32 name:nil];
    });
  };
  expect(logarithm_of_exponential(false), {12});
  expect(logarithm_of_exponential(true), {INFINITY});
}
