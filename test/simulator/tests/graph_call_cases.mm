// Graphs that call executables. Run by test_graph_core.py.
#include "graph_cases.h"

namespace {

// in + number, on four numbers.
MPSGraphExecutable* adding(double number) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* added = [graph constantWithScalar:number dataType:MPSDataTypeFloat32];
  return compile(graph, @[ in ], @[ [graph additionWithPrimaryTensor:in secondaryTensor:added name:nil] ]);
}

// in * in on four numbers.
MPSGraphExecutable* squaring() {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  return compile(graph, @[ in ], @[ [graph multiplicationWithPrimaryTensor:in secondaryTensor:in name:nil] ]);
}

MPSGraphTensor* call(MPSGraph* graph, NSString* symbol, MPSGraphTensor* in) {
  return [graph callSymbolName:symbol inputTensors:@[ in ] outputTypes:@[ type({4}) ] name:nil][0];
}

const std::string method = "-[MPSGraph compileWithDevice:]: ";

} // namespace

CASE(calls_run_executables) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* one = call(graph, @"add", in);
  MPSGraphTensor* two = call(graph, @"square", one);
  MPSGraphTensor* three = call(graph, @"add", two);
  NSDictionary* callables = @{@"add" : adding(1), @"square" : squaring(), @"another" : squaring()};
  MPSGraphExecutable* executable = compile(graph, @[ in ], @[ one, three ], callables);
  const Data<float> source({4}, {0, 1, 2, 3}), first({4}, {0, 0, 0, 0}), last({4}, {0, 0, 0, 0});
  run(executable, {{in, source.data}}, {{one, first.data}, {three, last.data}});
  expect(first.values(), {1, 2, 3, 4});
  expect(last.values(), {2, 5, 10, 17});
}

CASE(calls_of_calls) {
  MPSGraph* inner = new_graph();
  MPSGraphTensor* inner_in = placeholder<float>(inner, {4});
  NSDictionary* inner_callables = @{@"f" : adding(2)};
  NSDictionary* callables = @{@"f" : compile(inner, @[ inner_in ], @[ call(inner, @"f", inner_in) ], inner_callables)};
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* out = call(graph, @"f", call(graph, @"f", in));
  const Data<float> memory({4}, {0, 1, 2, 3});
  run(compile(graph, @[ in ], @[ out ], callables), {{in, memory.data}}, {{out, memory.data}});
  expect(memory.values(), {4, 5, 6, 7});
}

CASE(calls_run_in_any_order) {
  // Each of many calls that need nothing of each other is the first one at some time, and the last one.
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphExecutable* add = adding(1);
  NSMutableArray<MPSGraphTensor*>* outs = [NSMutableArray array];
  for (int i = 0; i < 3; i++) {
    [outs addObject:call(graph, @"add", in)];
  }
  MPSGraphExecutable* executable = compile(graph, @[ in ], outs, @{@"add" : add});
  const bool validation = settings().validation;
  settings().validation = false; // the results lie in one place, and in that of the feed
  std::vector<float> seen;
  for (int i = 0; i < 20; i++) {
    const Data<float> memory({4}, {0, 0, 0, 0});
    run(executable, {{in, memory.data}}, {{outs[0], memory.data}, {outs[1], memory.data}, {outs[2], memory.data}});
    seen.push_back(memory.values()[0]);
  }
  settings().validation = validation;
  // What one has written is read by the next: nothing is held back until all have run.
  expect(seen, std::vector<float>(20, 3));
}

CASE(violation_result_in_the_place_of_a_feed_of_another_call) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* reader = call(graph, @"square", in);
  MPSGraphTensor* writer = call(graph, @"add", in);
  NSDictionary* callables = @{@"add" : adding(1), @"square" : squaring()};
  const Data<float> memory({4}, {0, 1, 2, 3}), other({4}, {0, 0, 0, 0});
  MPSGraphExecutable* executable = compile(graph, @[ in ], @[ reader, writer ], callables);
  expect_violation("which another call may not have read yet",
                   [&] { run(executable, {{in, memory.data}}, {{reader, other.data}, {writer, memory.data}}); });
  // After all that read it, it is fine.
  MPSGraphTensor* after = call(graph, @"add", reader);
  MPSGraphExecutable* in_order = compile(graph, @[ in ], @[ after ], callables);
  run(in_order, {{in, memory.data}}, {{after, memory.data}});
  expect(memory.values(), {1, 2, 5, 10});
}

CASE(violation_results_of_calls_in_one_place) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* one = call(graph, @"add", in);
  MPSGraphTensor* two = call(graph, @"add", one);
  const Data<float> source({4}, {0, 1, 2, 3}), memory({4}, {0, 0, 0, 0});
  MPSGraphExecutable* executable = compile(graph, @[ in ], @[ one, two ], @{@"add" : adding(1)});
  expect_violation("and either may be written first",
                   [&] { run(executable, {{in, source.data}}, {{one, memory.data}, {two, memory.data}}); });
}

CASE(result_of_a_call_is_no_view_of_its_input) {
  MPSGraph* same = new_graph();
  MPSGraphTensor* same_in = placeholder<float>(same, {4});
  MPSGraphTensor* same_out = [same reshapeTensor:same_in withShape:shape({2, 2}) name:nil];
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* square = [graph callSymbolName:@"same" inputTensors:@[ in ] outputTypes:@[ type({2, 2}) ]
                                            name:nil][0];
  MPSGraphTensor* line = [graph reshapeTensor:square withShape:shape({4}) name:nil];
  MPSGraphTensor* added = call(graph, @"add", line);
  MPSGraphTensor* last = [graph additionWithPrimaryTensor:added secondaryTensor:line name:nil];
  NSDictionary* callables = @{@"add" : adding(1), @"same" : compile(same, @[ same_in ], @[ same_out ])};
  MPSGraphExecutable* executable = compile(graph, @[ in ], @[ added, last ], callables);
  for (int i = 0; i < 10; i++) {
    const Data<float> memory({4}, {0, 1, 2, 3}), result({4}, {0, 0, 0, 0});
    run(executable, {{in, memory.data}}, {{added, memory.data}, {last, result.data}});
    expect(memory.values(), {1, 2, 3, 4});
    expect(result.values(), {1, 3, 5, 7});
  }
}

CASE(violation_calls_of_what_is_not_there) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* out = call(graph, @"add", in);
  for (NSDictionary* callables in @[ @{}, @{@"added" : adding(1)} ]) {
    expect_violation(method + "the callables have no executable for the symbol 'add'",
                     [&] { compile(graph, @[ in ], @[ out ], callables); });
  }
  expect_violation("have no executable for the symbol 'add'", [&] { compile(graph, @[ in ], @[ out ]); });
  const Data<float> memory({4}, {0, 1, 2, 3}), result({4}, {0, 0, 0, 0});
  expect_violation("the graph was not compiled with callables",
                   [&] { run(graph, {{in, memory.data}}, {{out, result.data}}); });
}

CASE(violation_calls_with_other_tensors) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* longer = placeholder<float>(graph, {5});
  MPSGraphTensor* integers = placeholder<int32_t>(graph, {4});
  NSDictionary* callables = @{@"add" : adding(1)};
  const auto expect_refused = [&](const std::string& part, NSArray* inputs, NSArray* outputs) {
    expect_violation(method + "the executable for the symbol 'add' " + part, [&] {
      NSArray* results = [graph callSymbolName:@"add" inputTensors:inputs outputTypes:outputs name:nil];
      compile(graph, inputs, @[ results[0] ], callables);
    });
  };
  expect_refused("takes 1 inputs, not 2", @[ in, longer ], @[ type({4}) ]);
  expect_refused("takes Float [4] for its input 0, not Float [5]", @[ longer ], @[ type({4}) ]);
  expect_refused("takes Float [4] for its input 0, not Int [4]", @[ integers ], @[ type({4}) ]);
  expect_refused("gives 1 results, not 2", @[ in ], @[ type({4}), type({4}) ]);
  expect_refused("gives Float [4] for its result 0, not Float [5]", @[ in ], @[ type({5}) ]);
  expect_refused("gives Float [4] for its result 0, not Int [4]", @[ in ], @[ type({4}, MPSDataTypeInt32) ]);
  expect_violation("does not belong to the graph", [&] { call(graph, @"add", placeholder<float>(new_graph(), {4})); });
}

CASE(violation_called_executable_was_released) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* out = call(graph, @"add", in);
  const Data<float> memory({4}, {0, 1, 2, 3});
  MPSGraphExecutable* executable = nil;
  @autoreleasepool {
    executable = [compile(graph, @[ in ], @[ out ], @{@"add" : adding(1)}) retain];
  }
  expect_violation("is called, but was released", [&] { run(executable, {{in, memory.data}}, {{out, memory.data}}); });
  [executable release];
}
