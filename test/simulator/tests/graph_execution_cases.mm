// What a run of a graph asks of memory and of executables. Run by test_graph_core.py.
#include "graph_cases.h"

#import "metal_objects.h"

#include "graph/executable.h"

using mps_simulator::cases::Gate;

// --- results in the memory of feeds ----------------------------------------

namespace {

MPSNDArray* array(id<MTLBuffer> buffer, NSUInteger offset, const std::vector<int64_t>& sizes) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32
                                                                            shape:shape(sizes)];
  descriptor.preferPackedRows = YES;
  return [[[MPSNDArray alloc] initWithBuffer:buffer offset:offset descriptor:descriptor] autorelease];
}

MPSGraphTensorData* part(id<MTLBuffer> buffer, NSUInteger offset, const std::vector<int64_t>& sizes) {
  return [[[MPSGraphTensorData alloc] initWithMPSNDArray:array(buffer, offset, sizes)] autorelease];
}

// Every second number from `offset` on, as a column.
MPSGraphTensorData* every_second(id<MTLBuffer> buffer, NSUInteger offset, int64_t count) {
  MPSNDArray* view = [array(buffer, offset, {2 * count - 1}) arrayViewWithShape:shape({count, 1})
                                                                        strides:shape({2, 1})];
  return [[[MPSGraphTensorData alloc] initWithMPSNDArray:view] autorelease];
}

struct Doubled {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {4});
  MPSGraphTensor* unused = placeholder<float>(graph, {4});
  MPSGraphTensor* out = [graph additionWithPrimaryTensor:in secondaryTensor:in name:nil];

  MPSGraphExecutable* compile() const {
    return ::compile(graph, @[ in ], @[ out ]);
  }
};

} // namespace

CASE(violation_result_overlaps_a_part_of_a_feed) {
  const Doubled graph;
  const Data<float> memory({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  MPSGraphTensorData* front = part(memory.buffer, 0, {4});
  for (const NSUInteger offset : {4, 12}) {
    expect_violation("-[MPSGraph encodeToCommandBuffer]: the result [4] at the bytes " + std::to_string(offset), [&] {
      run(graph.graph, {{graph.in, front}}, {{graph.out, part(memory.buffer, offset, {4})}});
    });
  }
  expect_violation(
      "[MPSGraphExecutable encodeToCommandBuffer]: the result [4] at the bytes 8 to 24 overlaps a part of "
      "the feed [4] at the bytes 0 to 16",
      [&] {
        run(graph.compile(), {{graph.in, front}}, {{graph.out, part(memory.buffer, 8, {4})}});
      });
  expect(memory.values(), {1, 2, 3, 4, 5, 6, 7, 8});
  // Next to it, in its place, and over a feed that nothing reads.
  run(graph.graph, {{graph.in, front}}, {{graph.out, part(memory.buffer, 16, {4})}});
  expect(memory.values(), {1, 2, 3, 4, 2, 4, 6, 8});
  run(graph.graph, {{graph.in, front}}, {{graph.out, front}});
  expect(memory.values(), {2, 4, 6, 8, 2, 4, 6, 8});
  const Data<float> other({4}, {0, 1, 2, 3});
  run(graph.graph, {{graph.in, other.data}, {graph.unused, part(memory.buffer, 8, {4})}}, {{graph.out, front}});
  expect(memory.values(), {0, 2, 4, 6, 2, 4, 6, 8});
}

CASE(violation_result_overlaps_elements_of_a_feed) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<float>(graph, {3, 1});
  MPSGraphTensor* out = [graph additionWithPrimaryTensor:in secondaryTensor:in name:nil];
  const Data<float> memory({8}, {1, 2, 3, 4, 5, 6, 7, 8});
  MPSGraphTensorData* even = every_second(memory.buffer, 0, 3);
  expect_violation("overlaps a part of the feed", [&] {
    run(graph, {{in, even}}, {{out, every_second(memory.buffer, 8, 3)}});
  });
  // Between its elements, and in their places.
  run(graph, {{in, even}}, {{out, every_second(memory.buffer, 4, 3)}});
  expect(memory.values(), {1, 2, 3, 6, 5, 10, 7, 8});
  run(graph, {{in, even}}, {{out, even}});
  expect(memory.values(), {2, 2, 6, 6, 10, 10, 7, 8});
}

CASE(violation_result_is_wider_than_the_feed_in_its_place) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* in = placeholder<int64_t>(graph, {3});
  MPSGraphTensor* narrow = [graph castTensor:in toType:MPSDataTypeInt32 name:nil];
  MPSGraphTensor* part = placeholder<int32_t>(graph, {3});
  MPSGraphTensor* wide = [graph castTensor:part toType:MPSDataTypeInt64 name:nil];
  const Data<int64_t> memory({3}, {7, 8, 9});
  const auto as_int32 = [&](const std::vector<int64_t>& sizes) {
    return [[[MPSGraphTensorData alloc] initWithMTLBuffer:memory.buffer shape:shape(sizes)
                                                 dataType:MPSDataTypeInt32] autorelease];
  };
  run(graph, {{in, memory.data}}, {{narrow, as_int32({3})}});
  const int32_t* values = static_cast<const int32_t*>(memory.buffer.contents);
  expect(std::vector<int32_t>(values, values + 3), {7, 8, 9});
  expect_violation("the result [3] at the bytes 0 to 24 overlaps a part of the feed [3] at the bytes 0 to 12", [&] {
    run(graph, {{part, as_int32({3})}}, {{wide, memory.data}});
  });
}

// --- executables that are released too early --------------------------------

namespace {

void encode(MPSGraphExecutable* executable, MPSCommandBuffer* commands, const Data<float>& in, const Data<float>& out) {
  [executable encodeToCommandBuffer:commands
                        inputsArray:@[ in.data ]
                       resultsArray:@[ out.data ]
                executionDescriptor:nil];
}

// Encodes a run of an executable that has no other reference; the work waits for the gate if there is one.
MPSCommandBuffer* encode_and_release(const Doubled& graph, const Data<float>& in, const Data<float>& out) {
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  @autoreleasepool {
    encode(graph.compile(), commands, in, out);
  }
  return commands;
}

void expect_released_early(MPSCommandBuffer* commands) {
  expect_violation("-[MPSGraphExecutable encodeToCommandBuffer]: the executable 0x",
                   [&] { [commands waitUntilCompleted]; });
}

} // namespace

CASE(violation_executable_released_before_commit) {
  const Doubled graph;
  const Data<float> in({4}, {1, 2, 3, 4}), out({4}, {0, 0, 0, 0});
  MPSCommandBuffer* commands = encode_and_release(graph, in, out);
  [commands commit];
  expect_violation("for addition", [&] { [commands waitUntilCompleted]; });
  expect(out.values(), {0, 0, 0, 0});
}

CASE(violation_executable_released_after_commit) {
  const Doubled graph;
  const Data<float> in({4}, {1, 2, 3, 4}), out({4}, {0, 0, 0, 0});
  Gate gate(queue());
  MPSCommandBuffer* commands = nil;
  @autoreleasepool {
    MPSGraphExecutable* executable = graph.compile();
    commands = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    encode(executable, commands, in, out);
    [commands commit];
  }
  gate.open();
  expect_released_early([commands autorelease]);
}

CASE(executable_may_go_when_its_work_is_done) {
  const Doubled graph;
  const Data<float> in({4}, {1, 2, 3, 4}), out({4}, {0, 0, 0, 0});
  @autoreleasepool {
    MPSGraphExecutable* executable = graph.compile();
    MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
    encode(executable, commands, in, out);
    finish(commands);
  }
  expect(out.values(), {2, 4, 6, 8});
  // A handler may keep it as long as it is needed, and a buffer that is never committed needs nothing.
  MPSCommandBuffer* commands = nil;
  @autoreleasepool {
    MPSGraphExecutable* executable = graph.compile();
    commands = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    [commands addCompletedHandler:^(id<MTLCommandBuffer>) {
      [executable self];
    }];
    encode(executable, commands, out, in);
    encode_and_release(graph, in, out);
  }
  finish(commands);
  [commands release];
  expect(in.values(), {4, 8, 12, 16});
}

CASE(violation_executable_on_two_threads) {
  const Doubled graph;
  const Data<float> in({4}, {1, 2, 3, 4}), out({4}, {0, 0, 0, 0});
  MPSGraphExecutable* executable = graph.compile();
  const mps_simulator::cases::UsedElsewhere other(executable->_life->one_thread);
  expect_violation("-[MPSGraphExecutable encodeToCommandBuffer]: another thread is using the executable",
                   [&] { run(executable, {{graph.in, in.data}}, {{graph.out, out.data}}); });
  const mps_simulator::cases::Setting<bool> shared(mps_simulator::settings().shared_executables, true);
  run(executable, {{graph.in, in.data}}, {{graph.out, out.data}});
  expect(out.values(), {2, 4, 6, 8});
}
