// Prints what a seed decides. Run by test_seeds.py in processes of their own.

#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <dispatch/dispatch.h>

#import "metal_objects.h"

#include <cstdio>
#include <string>
#include <thread>

using namespace mps_simulator;
using namespace mps_simulator::cases;

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
  [dictionary removeObjectForKey:[NSNumber numberWithInt:4]];
  CHECK_EQUAL(dictionary.count, 8);
  for (NSNumber* number in numbers(9)) {
    CHECK_EQUAL([dictionary[number] intValue], number.intValue == 4 ? 0 : number.intValue);
  }
  print_all(@{@1 : @1, @2 : @2, @3 : @3, @4 : @4, @5 : @5, @6 : @6});
}

CASE(print_set_order) {
  NSMutableSet* set = [NSMutableSet setWithArray:numbers(9)];
  print_all(set);
  [set removeObject:[NSNumber numberWithInt:4]];
  for (NSNumber* number in numbers(9)) {
    CHECK([set containsObject:number] == (number.intValue != 4));
  }
  std::printf("%d\n", [[set anyObject] intValue]);
}

CASE(print_buffer_addresses) {
  for (int i = 0; i < 4; ++i) {
    std::printf("%p ", [shared_buffer(4096) contents]);
  }
  std::printf("\n");
}

namespace {

MPSGraphTensorData* four_floats() {
  return [[[MPSGraphTensorData alloc] initWithMTLBuffer:float_buffer(4) shape:@[ @4 ]
                                               dataType:MPSDataTypeFloat32] autorelease];
}

struct Doubling {
  MPSGraph* graph = [[[MPSGraph alloc] init] autorelease];
  MPSGraphTensor* x = [graph placeholderWithShape:@[ @4 ] dataType:MPSDataTypeFloat32 name:nil];
  MPSGraphTensor* y = [graph additionWithPrimaryTensor:x secondaryTensor:x name:nil];
};

// Prints 1 for each of 64 runs after which the work went on in another command
// buffer; returns how many these were.
int print_commits(void (^encode)(MPSCommandBuffer*)) {
  MPSCommandBuffer* buffer = [MPSCommandBuffer commandBufferFromCommandQueue:metal_queue()];
  int commits = 0;
  for (int i = 0; i < 64; ++i) {
    id<MTLCommandBuffer> before = buffer.rootCommandBuffer;
    encode(buffer);
    const bool committed = buffer.rootCommandBuffer != before;
    std::printf("%d", committed);
    commits += committed;
  }
  std::printf("\n");
  [buffer commit];
  [buffer.rootCommandBuffer waitUntilCompleted];
  return commits;
}

} // namespace

CASE(print_commit_and_continue) {
  @autoreleasepool {
    const Doubling doubling;
    MPSGraph* graph = doubling.graph;
    NSDictionary* feeds = @{doubling.x : four_floats()};
    NSDictionary* results = @{doubling.y : four_floats()};
    MPSGraphExecutionDescriptor* descriptor = [[[MPSGraphExecutionDescriptor alloc] init] autorelease];
    CHECK(descriptor.enableCommitAndContinue);
    const auto encode_with = [&](MPSGraphExecutionDescriptor* used) {
      return print_commits(^(MPSCommandBuffer* buffer) {
        [graph encodeToCommandBuffer:buffer
                               feeds:feeds
                    targetOperations:nil
                   resultsDictionary:results
                 executionDescriptor:used];
      });
    };
    encode_with(descriptor);
    encode_with(nil);
    descriptor.enableCommitAndContinue = NO;
    CHECK_EQUAL(encode_with(descriptor), 0);
  }
}

CASE(print_commit_and_continue_of_executables) {
  @autoreleasepool {
    const Doubling doubling;
    MPSGraphShapedType* type = [[[MPSGraphShapedType alloc] initWithShape:@[ @4 ]
                                                                 dataType:MPSDataTypeFloat32] autorelease];
    MPSGraphExecutable* executable = [doubling.graph compileWithDevice:nil
                                                                 feeds:@{doubling.x : type}
                                                         targetTensors:@[ doubling.y ]
                                                      targetOperations:nil
                                                 compilationDescriptor:nil];
    NSArray* inputs = @[ four_floats() ];
    NSArray* results = @[ four_floats() ];
    MPSGraphExecutableExecutionDescriptor* descriptor =
        [[[MPSGraphExecutableExecutionDescriptor alloc] init] autorelease];
    CHECK(descriptor.enableCommitAndContinue);
    const auto encode_with = [&](MPSGraphExecutableExecutionDescriptor* used) {
      return print_commits(^(MPSCommandBuffer* buffer) {
        [executable encodeToCommandBuffer:buffer inputsArray:inputs resultsArray:results executionDescriptor:used];
      });
    };
    const int commits = encode_with(descriptor);
    CHECK(settings().seed != 0 || commits == 0);
    CHECK(settings().seed != 1 || commits == 64);
    encode_with(nil);
    descriptor.enableCommitAndContinue = NO;
    CHECK_EQUAL(encode_with([[descriptor copy] autorelease]), 0);
  }
}

CASE(print_feed_order) {
  MPSGraph* graph = [[[MPSGraph alloc] init] autorelease];
  NSMutableDictionary* feeds = [NSMutableDictionary dictionary];
  MPSGraphShapedType* type = [[[MPSGraphShapedType alloc] initWithShape:@[ @4 ]
                                                               dataType:MPSDataTypeFloat32] autorelease];
  NSMutableArray* sums = [NSMutableArray array];
  NSMutableArray* tensors = [NSMutableArray array];
  for (int i = 0; i < 6; ++i) {
    MPSGraphTensor* x = [graph placeholderWithShape:@[ @4 ] dataType:MPSDataTypeFloat32 name:nil];
    feeds[x] = type;
    [tensors addObject:x];
    MPSGraphTensor* sum =
        sums.count ? [graph additionWithPrimaryTensor:sums[sums.count - 1] secondaryTensor:x name:nil] : x;
    [sums addObject:sum];
  }
  // Each executable has its own order, also of the same graph.
  for (int i = 0; i < 2; ++i) {
    MPSGraphExecutable* executable = [graph compileWithDevice:nil
                                                        feeds:feeds
                                                targetTensors:sums
                                             targetOperations:nil
                                        compilationDescriptor:nil];
    CHECK_EQUAL(executable.feedTensors.count, 6);
    for (MPSGraphTensor* tensor in executable.feedTensors) {
      std::printf("%lu ", [tensors indexOfObjectIdenticalTo:tensor]);
    }
    CHECK_EQUAL(executable.targetTensors.count, 6);
    for (MPSGraphTensor* tensor in executable.targetTensors) {
      std::printf("%lu ", [sums indexOfObjectIdenticalTo:tensor]);
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
