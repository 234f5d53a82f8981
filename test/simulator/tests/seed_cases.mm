// Print what a seed decides. Run by test_seeds.py in processes of their own.

#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#import "metal_objects.h"

#include <cstdio>
#include <string>

using namespace mps_simulator;
using namespace mps_simulator::cases;

// Not in Apple's headers; PyTorch declares it for itself.
@interface MPSGraphExecutionDescriptor ()
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

CASE(print_commit_and_continue) {
  @autoreleasepool {
    MPSGraph* graph = [[[MPSGraph alloc] init] autorelease];
    MPSGraphTensor* x = [graph placeholderWithShape:@[ @4 ]
                                           dataType:MPSDataTypeFloat32
                                               name:nil];
    MPSGraphTensor* y = [graph additionWithPrimaryTensor:x
                                         secondaryTensor:x
                                                    name:nil];
    MPSGraphTensorData* in = [[[MPSGraphTensorData alloc]
        initWithMTLBuffer:float_buffer(4)
                    shape:@[ @4 ]
                 dataType:MPSDataTypeFloat32] autorelease];
    MPSGraphTensorData* out = [[[MPSGraphTensorData alloc]
        initWithMTLBuffer:float_buffer(4)
                    shape:@[ @4 ]
                 dataType:MPSDataTypeFloat32] autorelease];
    MPSGraphExecutionDescriptor* descriptor =
        [[[MPSGraphExecutionDescriptor alloc] init] autorelease];
    descriptor.enableCommitAndContinue = YES;
    MPSCommandBuffer* buffer =
        [MPSCommandBuffer commandBufferFromCommandQueue:metal_queue()];
    for (int i = 0; i < 64; ++i) {
      id<MTLCommandBuffer> before = buffer.rootCommandBuffer;
      [graph encodeToCommandBuffer:buffer
                             feeds:@{x : in}
                  targetOperations:nil
                 resultsDictionary:@{y : out}
               executionDescriptor:descriptor];
      std::printf("%d", buffer.rootCommandBuffer != before);
    }
    [buffer commit];
    [buffer.rootCommandBuffer waitUntilCompleted];
  }
  std::printf("\n");
}

CASE(print_feed_order) {
  MPSGraph* graph = [[[MPSGraph alloc] init] autorelease];
  NSMutableDictionary* feeds = [NSMutableDictionary dictionary];
  MPSGraphShapedType* type =
      [[[MPSGraphShapedType alloc] initWithShape:@[ @4 ]
                                        dataType:MPSDataTypeFloat32] autorelease];
  MPSGraphTensor* sum = nil;
  NSMutableArray* tensors = [NSMutableArray array];
  for (int i = 0; i < 6; ++i) {
    MPSGraphTensor* x = [graph placeholderWithShape:@[ @4 ]
                                           dataType:MPSDataTypeFloat32
                                               name:nil];
    feeds[x] = type;
    [tensors addObject:x];
    sum = sum ? [graph additionWithPrimaryTensor:sum secondaryTensor:x name:nil]
              : x;
  }
  MPSGraphExecutable* executable =
      [graph compileWithDevice:nil
                         feeds:feeds
                 targetTensors:@[ sum ]
              targetOperations:nil
         compilationDescriptor:nil];
  CHECK_EQUAL(executable.feedTensors.count, 6);
  for (MPSGraphTensor* tensor in executable.feedTensors) {
    std::printf("%lu ", [tensors indexOfObjectIdenticalTo:tensor]);
  }
  std::printf("\n");
}
