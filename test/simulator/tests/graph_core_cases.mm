// The core of MPSGraph through its own API. Run by test_graph_core.py.
#include "graph_cases.h"
#include "support/settings.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

@interface MPSGraphExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

// --- building -------------------------------------------------------------

CASE(graph_infers_shapes) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* a = placeholder<float>(graph, {2, 1, 3});
  MPSGraphTensor* b = placeholder<float>(graph, {4, 1});
  MPSGraphTensor* sum = [graph additionWithPrimaryTensor:a secondaryTensor:b name:nil];
  CHECK([sum.shape isEqual:shape({2, 4, 3})]);
  MPSGraphTensor* compared = [graph lessThanWithPrimaryTensor:a secondaryTensor:b name:nil];
  CHECK(compared.dataType == MPSDataTypeBool);
  MPSGraphTensor* unknown = placeholder<float>(graph, {-1, 3});
  CHECK([[graph squareWithTensor:unknown name:nil].shape isEqual:shape({-1, 3})]);
  MPSGraphTensor* unranked = [graph placeholderWithShape:nil dataType:MPSDataTypeFloat32 name:nil];
  MPSGraphTensor* cast = [graph castTensor:unranked toType:MPSDataTypeInt32 name:nil];
  if (cast.shape != nil || cast.dataType != MPSDataTypeInt32) {
    fail("a tensor without rank has a shape or a wrong type");
  }
}

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

CASE(graph_computes_after_commit_only) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {3});
  MPSGraphTensor* output = [graph squareWithTensor:input name:nil];
  const Data<float> source({3}, {1, 2, 3}), result({3}, {-1, -1, -1});
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  // Otherwise the run may commit by itself.
  MPSGraphExecutionDescriptor* descriptor = [[MPSGraphExecutionDescriptor new] autorelease];
  descriptor.enableCommitAndContinue = NO;
  encode(graph, commands, {{input, source.data}}, {{output, result.data}}, descriptor);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect(result.values(), {-1, -1, -1});
  // The content of the feed when the GPU runs is what counts.
  static_cast<float*>(source.buffer.contents)[0] = 5;
  finish(commands);
  expect(result.values(), {25, 4, 9});
}

CASE(graph_keeps_what_it_needs) {
  Data<float>* result = nullptr;
  MPSCommandBuffer* commands = nil;
  std::vector<float> values;
  @autoreleasepool {
    commands = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    result = new Data<float>({2}, {0, 0});
    [result->buffer retain];
    @autoreleasepool {
      MPSGraph* graph = new_graph();
      MPSGraphTensor* input = placeholder<float>(graph, {2});
      MPSGraphTensor* output = [graph negativeWithTensor:input name:nil];
      const Data<float> source({2}, {1, 2});
      encode(graph, commands, {{input, source.data}}, {{output, result->data}});
    }
    finish(commands);
    values = result->values();
    [result->buffer release];
    [commands release];
    delete result;
  }
  expect(values, {-1, -2});
}

CASE(graph_broadcasts_single_results) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {1});
  MPSGraphTensor* output = [graph squareWithTensor:input name:nil];
  const Data<float> source({1}, {3}), result({2, 2}, {0, 0, 0, 0});
  run(graph, {{input, source.data}}, {{output, result.data}});
  expect(result.values(), {9, 9, 9, 9});
}

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

CASE(graph_swaps_two_feeds) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* a = placeholder<float>(graph, {2});
  MPSGraphTensor* b = placeholder<float>(graph, {2});
  const Data<float> left({2}, {1, 2}), right({2}, {3, 4});
  run(graph, {{a, left.data}, {b, right.data}}, {{a, right.data}, {b, left.data}});
  expect(left.values(), {3, 4});
  expect(right.values(), {1, 2});
}

CASE(graph_takes_feeds_of_any_shape_without_rank) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = [graph placeholderWithShape:nil dataType:MPSDataTypeFloat32 name:nil];
  MPSGraphTensor* output = [graph reductionSumWithTensor:input axis:-1 name:nil];
  for (const int64_t rows : {1, 2}) {
    const Data<float> source({rows, 2}, std::vector<float>(rows * 2, 1.5f));
    const Data<float> result({rows, 1}, std::vector<float>(rows));
    run(graph, {{input, source.data}}, {{output, result.data}});
    expect(result.values(), std::vector<float>(rows, 3));
  }
}

CASE(graph_makes_memory_for_targets) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {-1});
  MPSGraphTensor* output = [graph expandDimsOfTensor:[graph squareWithTensor:input name:nil] axis:0 name:nil];
  const Data<float> source({3}, {1, 2, 3});
  NSDictionary* results = [graph runWithMTLCommandQueue:queue()
                                                  feeds:dictionary({{input, source.data}})
                                          targetTensors:@[ output ]
                                       targetOperations:nil];
  MPSGraphTensorData* data = [results objectForKey:output];
  CHECK([data.shape isEqual:shape({1, 3})]);
  std::vector<float> values(3);
  [[data mpsndarray] readBytes:values.data() strideBytes:nil];
  expect(values, {1, 4, 9});
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

CASE(graph_calls_completion_handlers) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {1});
  MPSGraphTensor* output = [graph squareWithTensor:input name:nil];
  const Data<float> source({1}, {2}), result({1}, {0});
  auto calls = std::make_shared<std::atomic<int>>(0);
  MPSGraphExecutionDescriptor* descriptor = [[MPSGraphExecutionDescriptor new] autorelease];
  descriptor.completionHandler = ^(MPSGraphTensorDataDictionary* results, NSError* error) {
    *calls += error == nil && [results objectForKey:output] != nil;
  };
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  encode(graph, commands, {{input, source.data}}, {{output, result.data}}, descriptor);
  finish(commands);
  for (int i = 0; i < 200 && *calls == 0; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (*calls != 1) {
    fail("the handler was called ", *calls, " times");
  }
}

CASE(graph_commits_and_continues_at_times) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {1});
  MPSGraphTensor* output = [graph additionWithPrimaryTensor:input
                                            secondaryTensor:[graph constantWithScalar:1 dataType:MPSDataTypeFloat32]
                                                       name:nil];
  MPSGraphExecutionDescriptor* descriptor = [[MPSGraphExecutionDescriptor new] autorelease];
  descriptor.enableCommitAndContinue = YES;
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  const Data<float> counter({1}, {0});
  int changes = 0;
  for (int i = 0; i < 200; i++) {
    id<MTLCommandBuffer> before = commands.rootCommandBuffer;
    encode(graph, commands, {{input, counter.data}}, {{output, counter.data}}, descriptor);
    changes += before != commands.rootCommandBuffer;
  }
  finish(commands);
  expect(counter.values(), {200});
  if (changes == 0 || (changes > 100 && settings().seed != 1)) {
    fail(changes, " commits in 200 runs");
  }
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

CASE(graph_shuffles_the_feeds_of_executables) {
  MPSGraph* graph = new_graph();
  NSMutableArray<MPSGraphTensor*>* placeholders = [NSMutableArray array];
  MPSGraphTensor* sum = [graph constantWithScalar:0 dataType:MPSDataTypeFloat32];
  for (int i = 0; i < 12; i++) {
    [placeholders addObject:placeholder<float>(graph, {1})];
    sum = [graph additionWithPrimaryTensor:sum secondaryTensor:placeholders[i] name:nil];
  }
  NSArray* feeds = compile(graph, placeholders, @[ sum ]).feedTensors;
  CHECK_EQUAL(feeds.count, 12);
  CHECK(![feeds isEqual:placeholders]);
}

CASE(graph_checks_the_inputs_of_executables) {
  const Difference graph;
  MPSGraphExecutable* executable = graph.compile();
  const Data<float> good({2}, {5, 7}), wrong_shape({1}, {5});
  const Data<int32_t> wrong_type({2}, {5, 7});
  const auto encode = [&](NSArray* inputs, NSArray* results) {
    [executable runWithMTLCommandQueue:queue() inputsArray:inputs resultsArray:results executionDescriptor:nil];
  };
  expect_violation("1 inputs are given for an executable with 2", [&] { encode(@[ good.data ], nil); });
  expect_violation("is fed [1]", [&] { encode(@[ good.data, wrong_shape.data ], nil); });
  expect_violation("is fed Int", [&] { encode(@[ good.data, wrong_type.data ], nil); });
  expect_violation("1 results are given", [&] { encode(@[ good.data, good.data ], @[ good.data ]); });
  expect_violation("but its memory Int", [&] { encode(@[ good.data, good.data ], @[ good.data, wrong_type.data ]); });
}

CASE(graph_executables_outlive_their_graph) {
  MPSGraphExecutable* executable = nil;
  @autoreleasepool {
    const Difference graph;
    executable = [graph.compile() retain];
  }
  const Data<float> data({2}, {3, 3}), first({2}, {0, 0}), second({2}, {0, 0});
  [executable runWithMTLCommandQueue:queue()
                         inputsArray:@[ data.data, data.data ]
                        resultsArray:@[ first.data, second.data ]
                 executionDescriptor:nil];
  const std::vector<float> zero{0, 0};
  const std::vector<float> nine{9, 9};
  if (!(first.values() == zero && second.values() == nine) && !(first.values() == nine && second.values() == zero)) {
    fail("wrong results");
  }
  [executable release];
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

CASE(graph_rounds_halves_two_ways) {
  const std::vector<float> halves{0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.49999997f};
  expect(apply<float, float>(
             {6}, halves, {6}, 6, [](MPSGraph* g, MPSGraphTensor* x) { return [g roundWithTensor:x name:nil]; }),
         {1, 2, 3, -1, -2, 0});
  expect(apply<float, float>(
             {6}, halves, {6}, 6, [](MPSGraph* g, MPSGraphTensor* x) { return [g rintWithTensor:x name:nil]; }),
         {0, 2, 2, 0, -2, 0});
}

CASE(graph_slices_with_masks) {
  const std::vector<float> numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto slice = [](std::vector<int64_t> starts,
                        std::vector<int64_t> ends,
                        std::vector<int64_t> strides,
                        uint32_t start_mask,
                        uint32_t end_mask,
                        uint32_t squeeze_mask) {
    return [=](MPSGraph* graph, MPSGraphTensor* input) {
      return [graph sliceTensor:input
                         starts:shape(starts)
                           ends:shape(ends)
                        strides:shape(strides)
                      startMask:start_mask
                        endMask:end_mask
                    squeezeMask:squeeze_mask
                           name:nil];
    };
  };
  expect(apply<float, float>({3, 4}, numbers, {2, 2}, 4, slice({1, 0}, {3, 4}, {1, 2}, 0, 0, 0)), {4, 6, 8, 10});
  expect(apply<float, float>({3, 4}, numbers, {2, 2}, 4, slice({2, -2}, {0, 9}, {-1, 1}, 0, 0, 0)), {10, 11, 6, 7});
  expect(apply<float, float>({3, 4}, numbers, {3}, 3, slice({2, 1}, {0, 0}, {-1, 1}, 1, 1, 2)), {9, 5, 1});
}

CASE(graph_slice_gradients_fill_with_zeros) {
  const std::vector<float> wanted{0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0};
  const auto gradient = [](MPSGraph* graph, MPSGraphTensor* incoming) {
    MPSGraphTensor* source = placeholder<float>(graph, {3, 4});
    return [graph sliceGradientTensor:incoming
                     fwdInShapeTensor:[graph shapeOfTensor:source name:nil]
                               starts:shape({1, 0})
                                 ends:shape({3, 4})
                              strides:shape({1, 2})
                            startMask:0
                              endMask:0
                          squeezeMask:0
                                 name:nil];
  };
  MPSGraph* graph = new_graph();
  MPSGraphTensor* incoming = placeholder<float>(graph, {2, 2});
  MPSGraphTensor* result = gradient(graph, incoming);
  CHECK([result.shape isEqual:shape({3, 4})]);
  const Data<float> source({2, 2}, {1, 2, 3, 4}), unused({3, 4}, std::vector<float>(12));
  const Data<float> memory({3, 4}, std::vector<float>(12, -1));
  run(graph, {{incoming, source.data}, {graph.placeholderTensors[1], unused.data}}, {{result, memory.data}});
  expect(memory.values(), wanted);
}

CASE(graph_pads_in_all_modes) {
  const auto pad = [](MPSGraphPaddingMode mode) {
    return apply<float, float>({3}, {1, 2, 3}, {7}, 7, [mode](MPSGraph* graph, MPSGraphTensor* input) {
      return [graph padTensor:input
              withPaddingMode:mode
                  leftPadding:shape({2})
                 rightPadding:shape({2})
                constantValue:9
                         name:nil];
    });
  };
  expect(pad(MPSGraphPaddingModeConstant), {9, 9, 1, 2, 3, 9, 9});
  expect(pad(MPSGraphPaddingModeZero), {0, 0, 1, 2, 3, 0, 0});
  expect(pad(MPSGraphPaddingModeReflect), {3, 2, 1, 2, 3, 2, 1});
  expect(pad(MPSGraphPaddingModeSymmetric), {2, 1, 1, 2, 3, 3, 2});
  expect(pad(MPSGraphPaddingModeClampToEdge), {1, 1, 1, 2, 3, 3, 3});
  expect(pad(MPSGraphPaddingModePeriodic), {2, 3, 1, 2, 3, 1, 2});
}

CASE(graph_pad_gradients_add_up) {
  const auto gradient = [](MPSGraphPaddingMode mode, int left, const std::vector<float>& incoming) {
    const std::vector<float> source(incoming.size() == 5 ? 3 : 4);
    return apply_to_two<float>(incoming, source, 3, [=](MPSGraph* graph, MPSGraphTensor* in, MPSGraphTensor* of) {
      return [graph padGradientWithIncomingGradientTensor:in
                                             sourceTensor:of
                                              paddingMode:mode
                                              leftPadding:shape({left})
                                             rightPadding:shape({1})
                                                     name:nil];
    });
  };
  expect(gradient(MPSGraphPaddingModeConstant, 1, {1, 2, 4, 8, 16}), {2, 4, 8});
  expect(gradient(MPSGraphPaddingModeReflect, 1, {1, 2, 4, 8, 16}), {2, 21, 8});
  expect(gradient(MPSGraphPaddingModeClampToEdge, 1, {1, 2, 4, 8, 16}), {3, 4, 24});
  // The source may have been cropped before: its size does not count.
  expect(gradient(MPSGraphPaddingModeClampToEdge, 0, {1, 2, 4, 8}), {1, 2, 12});
}

CASE(graph_moves_blocks_in_both_orders) {
  std::vector<float> image(8);
  for (size_t i = 0; i < image.size(); i++) {
    image[i] = static_cast<float>(i);
  }
  const auto to_depth = [](BOOL shuffle) {
    return [shuffle](MPSGraph* graph, MPSGraphTensor* input) {
      return [graph spaceToDepth2DTensor:input
                               widthAxis:3
                              heightAxis:2
                               depthAxis:1
                               blockSize:2
                    usePixelShuffleOrder:shuffle
                                    name:nil];
    };
  };
  // Two channels of 2 × 2: either channel by channel or position by position.
  const auto shuffled = apply<float, float>({1, 2, 2, 2}, image, {1, 8, 1, 1}, 8, to_depth(YES));
  expect(shuffled, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto plain = apply<float, float>({1, 2, 2, 2}, image, {1, 8, 1, 1}, 8, to_depth(NO));
  expect(plain, {0, 4, 1, 5, 2, 6, 3, 7});
  for (const BOOL shuffle : {YES, NO}) {
    const auto back = apply<float, float>(
        {1, 8, 1, 1}, shuffle ? shuffled : plain, {1, 2, 2, 2}, 8, [shuffle](MPSGraph* graph, MPSGraphTensor* input) {
          return [graph depthToSpace2DTensor:input
                                   widthAxis:3
                                  heightAxis:2
                                   depthAxis:1
                                   blockSize:2
                        usePixelShuffleOrder:shuffle
                                        name:nil];
        });
    expect(back, image);
  }
}

CASE(graph_interleaves_when_asked) {
  const auto concat = [](BOOL interleave) {
    return apply<float, float>({2, 2}, {1, 2, 3, 4}, {4, 2}, 8, [interleave](MPSGraph* graph, MPSGraphTensor* input) {
      MPSGraphTensor* negative = [graph negativeWithTensor:input name:nil];
      return [graph concatTensors:@[ input, negative ] dimension:0 interleave:interleave name:nil];
    });
  };
  expect(concat(NO), {1, 2, 3, 4, -1, -2, -3, -4});
  expect(concat(YES), {1, 2, -1, -2, 3, 4, -3, -4});
}

CASE(graph_scans_exclusively_and_backwards) {
  const auto scan = [](BOOL exclusive, BOOL reverse) {
    return apply<float, float>({3}, {1, 2, 4}, {3}, 3, [=](MPSGraph* graph, MPSGraphTensor* input) {
      return [graph cumulativeSumWithTensor:input axis:0 exclusive:exclusive reverse:reverse name:nil];
    });
  };
  expect(scan(NO, NO), {1, 3, 7});
  expect(scan(YES, NO), {0, 1, 3});
  expect(scan(NO, YES), {7, 6, 4});
  expect(scan(YES, YES), {6, 4, 0});
}

// The published answers of Philox4x32-10 for counter and key zero, and for all bits set.
CASE(graph_random_words_are_philox) {
  const auto first_words = [](int32_t word) {
    MPSGraph* graph = new_graph();
    MPSGraphTensor* state = placeholder<int32_t>(graph, {7});
    MPSGraphRandomOpDescriptor* descriptor =
        [MPSGraphRandomOpDescriptor descriptorWithDistribution:MPSGraphRandomDistributionUniform
                                                      dataType:MPSDataTypeInt64];
    descriptor.minInteger = INT64_MIN;
    descriptor.maxInteger = INT64_MAX;
    NSArray<MPSGraphTensor*>* results = [graph randomTensorWithShape:shape({2})
                                                          descriptor:descriptor
                                                         stateTensor:state
                                                                name:nil];
    const Data<int32_t> words({7}, {1, word, word, word, word, word, word});
    const Data<int64_t> values({2}, {0, 0});
    const Data<int32_t> next({7}, std::vector<int32_t>(7));
    run(graph, {{state, words.data}}, {{results[0], values.data}, {results[1], next.data}});
    const int32_t carried = word == -1 ? 0 : 1;
    const int32_t rest = word == -1 ? 0 : word;
    expect(next.values(), {1, carried, rest, rest, rest, word, word});
    return values.values();
  };
  expect(first_words(0), {static_cast<int64_t>(0xe169c58d6627e8d5ull), static_cast<int64_t>(0x9b00dbd8bc57ac4cull)});
  expect(first_words(-1), {static_cast<int64_t>(0x41c83b0e408f276dull), static_cast<int64_t>(0x6d5451fda20bc7c6ull)});
}

CASE(graph_writes_indices_of_elements_that_are_not_zero) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {2, 2});
  MPSGraphTensor* output = [graph nonZeroIndicesOfTensor:input name:nil];
  CHECK(output.shape == nil);
  const Data<float> source({2, 2}, {0, 1, 2, 0});
  const Data<int64_t> result({2, 2}, {-1, -1, -1, -1});
  run(graph, {{input, source.data}}, {{output, result.data}});
  expect(result.values(), {0, 1, 1, 0});
}

CASE(graph_unknown_methods_raise) {
  try {
    MPSGraph* graph = new_graph();
    [(id)graph performSelector:@selector(methodThatIsNotWritten:) withObject:nil];
  } catch (const c10::NotImplementedError& error) {
    const std::string message = error.what_without_backtrace();
    if (message.find("methodThatIsNotWritten:") == std::string::npos) {
      fail("the message '", message, "' does not name the method");
    }
    return;
  }
  fail("nothing was raised");
}

// --- target operations ----------------------------------------------------

CASE(graph_runs_target_operations) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {2});
  MPSGraphTensor* square = [graph squareWithTensor:input name:nil];
  MPSGraphTensor* negative = [graph negativeWithTensor:input name:nil];
  const Data<float> source({2}, {2, 3}), result({2}, {0, 0});
  [graph runWithMTLCommandQueue:queue()
                          feeds:dictionary({{input, source.data}})
               targetOperations:@[ negative.operation ]
              resultsDictionary:dictionary({{square, result.data}})];
  expect(result.values(), {4, 9});
}

CASE(graph_rejects_target_operations_that_cannot_run) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<float>(graph, {2});
  MPSGraphTensor* other = placeholder<float>(graph, {2});
  MPSGraphTensor* square = [graph squareWithTensor:input name:nil];
  MPSGraphTensor* unfed = [graph negativeWithTensor:other name:nil];
  MPSGraph* stranger = new_graph();
  MPSGraphTensor* strange = [stranger squareWithTensor:placeholder<float>(stranger, {2}) name:nil];
  const Data<float> source({2}, {2, 3}), result({2}, {0, 0});
  const auto run_with = [&](MPSGraphTensor* target) {
    [graph runWithMTLCommandQueue:queue()
                            feeds:dictionary({{input, source.data}})
                 targetOperations:@[ target.operation ]
                resultsDictionary:dictionary({{square, result.data}})];
  };
  expect_violation("no data is fed", [&] { run_with(unfed); });
  expect_violation("belongs to another graph", [&] { run_with(strange); });
}

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
    CHECK([result.shape isEqual:shape({2, 4})]);
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
