// Prints what a seed decides. Run by test_seeds.py in processes of their own.

#include "graph_cases.h"
#include "support/settings.h"

#include <dispatch/dispatch.h>

#include <cstdio>
#include <thread>

using mps_simulator::cases::shared_buffer;

// Not in Apple's headers; PyTorch declares the first for itself.
@interface MPSGraphExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end
@interface MPSGraphExecutableExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

namespace {

NSMutableArray<NSNumber*>* numbers(int count) {
  NSMutableArray* result = [NSMutableArray array];
  for (int i = 0; i < count; ++i) {
    [result addObject:[NSNumber numberWithInt:i]];
  }
  return result;
}

void print_all(id<NSFastEnumeration> members) {
  for (NSNumber* member in members) {
    std::printf("%d ", member.intValue);
  }
  std::printf("\n");
}

} // namespace

CASE(print_dictionary_order) {
  NSMutableDictionary* dictionary = [NSMutableDictionary dictionary];
  for (NSNumber* number in numbers(9)) {
    dictionary[number] = number;
  }
  print_all(dictionary);
  for (NSNumber* number in numbers(9)) {
    CHECK_EQUAL([dictionary[number] intValue], number.intValue);
  }
  print_all(@{@1 : @1, @2 : @2, @3 : @3, @4 : @4, @5 : @5, @6 : @6});
}

CASE(print_set_order) {
  print_all([NSMutableSet setWithArray:numbers(9)]);
}

CASE(print_buffer_addresses) {
  for (int i = 0; i < 4; ++i) {
    std::printf("%p ", [shared_buffer(4096) contents]);
  }
  std::printf("\n");
}

namespace {

struct Doubling {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* x = placeholder<float>(graph, {4});
  MPSGraphTensor* y = [graph additionWithPrimaryTensor:x secondaryTensor:x name:nil];
  Data<float> in{{4}, {1, 2, 3, 4}};
  Data<float> out{{4}, {0, 0, 0, 0}};
};

// Prints 1 for each of 64 runs after which the work went on in another command buffer; returns how many these were.
template <typename Descriptor>
int print_commits(void (^encode)(MPSCommandBuffer*, Descriptor*), Descriptor* descriptor) {
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  int commits = 0;
  for (int i = 0; i < 64; ++i) {
    id<MTLCommandBuffer> before = buffer.rootCommandBuffer;
    encode(buffer, descriptor);
    const bool committed = buffer.rootCommandBuffer != before;
    std::printf("%d", committed);
    commits += committed;
  }
  std::printf("\n");
  [buffer commit];
  [buffer.rootCommandBuffer waitUntilCompleted];
  return commits;
}

// With a descriptor, without one, and with one that forbids commits. Returns the commits of the first.
template <typename Descriptor>
int print_commits(void (^encode)(MPSCommandBuffer*, Descriptor*)) {
  Descriptor* descriptor = [[[Descriptor alloc] init] autorelease];
  CHECK(descriptor.enableCommitAndContinue);
  const int commits = print_commits(encode, descriptor);
  print_commits(encode, static_cast<Descriptor*>(nil));
  descriptor.enableCommitAndContinue = NO;
  CHECK_EQUAL(print_commits(encode, descriptor), 0);
  return commits;
}

} // namespace

CASE(print_commit_and_continue) {
  const Doubling doubling;
  MPSGraph* graph = doubling.graph;
  NSDictionary* feeds = @{doubling.x : doubling.in.data};
  NSDictionary* results = @{doubling.y : doubling.out.data};
  print_commits<MPSGraphExecutionDescriptor>(^(MPSCommandBuffer* buffer, MPSGraphExecutionDescriptor* descriptor) {
    [graph encodeToCommandBuffer:buffer
                           feeds:feeds
                targetOperations:nil
               resultsDictionary:results
             executionDescriptor:descriptor];
  });
}

CASE(print_commit_and_continue_of_executables) {
  const Doubling doubling;
  MPSGraphExecutable* executable = compile(doubling.graph, @[ doubling.x ], @[ doubling.y ]);
  NSArray* inputs = @[ doubling.in.data ];
  NSArray* results = @[ doubling.out.data ];
  const int commits = print_commits<MPSGraphExecutableExecutionDescriptor>(
      ^(MPSCommandBuffer* buffer, MPSGraphExecutableExecutionDescriptor* descriptor) {
        [executable encodeToCommandBuffer:buffer
                              inputsArray:inputs
                             resultsArray:results
                      executionDescriptor:descriptor];
      });
  CHECK(settings().seed != 0 || commits == 0);
  CHECK(settings().seed != 1 || commits == 64);
}

CASE(print_feed_order) {
  MPSGraph* graph = new_graph();
  NSMutableArray* tensors = [NSMutableArray array];
  NSMutableArray* sums = [NSMutableArray array];
  for (int i = 0; i < 6; ++i) {
    MPSGraphTensor* x = placeholder<float>(graph, {4});
    [tensors addObject:x];
    [sums addObject:i > 0 ? [graph additionWithPrimaryTensor:sums[i - 1] secondaryTensor:x name:nil] : x];
  }
  // Each executable has its own order, also of the same graph.
  for (int i = 0; i < 2; ++i) {
    MPSGraphExecutable* executable = compile(graph, tensors, sums);
    CHECK_EQUAL(executable.feedTensors.count, 6);
    CHECK_EQUAL(executable.targetTensors.count, 6);
    for (MPSGraphTensor* tensor in executable.feedTensors) {
      std::printf("%lu ", [tensors indexOfObject:tensor]);
    }
    for (MPSGraphTensor* tensor in executable.targetTensors) {
      std::printf("%lu ", [sums indexOfObject:tensor]);
    }
    std::printf("\n");
  }
}

CASE(print_threads_of_sync) {
  const dispatch_queue_t queue = dispatch_queue_create("threads", nullptr);
  int others = 0;
  for (int i = 0; i < 64; ++i) {
    __block std::thread::id thread;
    dispatch_sync(queue, ^{
      thread = std::this_thread::get_id();
    });
    const bool is_other = thread != std::this_thread::get_id();
    std::printf("%d", is_other);
    others += is_other;
  }
  std::printf("\n");
  CHECK(settings().seed != 0 || others == 0);
  CHECK(settings().seed != 1 || others == 64);
  [queue release];
}
