// Building and running small graphs, for the cases in graph_*_cases.mm.
#pragma once

#include "cases.h"
#import "metal_objects.h"

#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

using namespace mps_simulator;
using mps_simulator::cases::finish;

namespace {

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  cases::fail(__FILE__, __LINE__, text.str());
}

template <typename T>
std::string join(const std::vector<T>& items) {
  std::ostringstream text;
  for (const T& item : items) {
    text << +item << ' ';
  }
  return text.str();
}

template <typename T>
void expect(const std::vector<T>& actual, const std::vector<T>& wanted) {
  if (actual != wanted) {
    fail("got ", join(actual), "instead of ", join(wanted));
  }
}

void expect_violation(const std::string& part, const std::function<void()>& body) {
  cases::expect_violation(__FILE__, __LINE__, "", part, body);
}

id<MTLDevice> device() {
  static id<MTLDevice> const instance = MTLCreateSystemDefaultDevice();
  return instance;
}

id<MTLCommandQueue> queue() {
  static id<MTLCommandQueue> const instance = [device() newCommandQueue];
  return instance;
}

MPSShape* shape(const std::vector<int64_t>& sizes) {
  NSMutableArray<NSNumber*>* result = [NSMutableArray arrayWithCapacity:sizes.size()];
  for (const int64_t size : sizes) {
    [result addObject:[NSNumber numberWithLongLong:size]];
  }
  return result;
}

template <typename T>
constexpr MPSDataType type_of() {
  if constexpr (std::is_same_v<T, float>) {
    return MPSDataTypeFloat32;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return MPSDataTypeInt32;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return MPSDataTypeInt64;
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return MPSDataTypeUInt8;
  } else {
    static_assert(std::is_same_v<T, bool>);
    return MPSDataTypeBool;
  }
}

template <typename T>
struct Data {
  Data(const std::vector<int64_t>& sizes, const std::vector<T>& values) {
    buffer = [[device() newBufferWithBytes:values.data()
                                    length:values.size() * sizeof(T)
                                   options:MTLResourceStorageModeShared] autorelease];
    data = [[[MPSGraphTensorData alloc] initWithMTLBuffer:buffer shape:shape(sizes) dataType:type_of<T>()] autorelease];
    count = values.size();
  }

  std::vector<T> values() const {
    const T* begin = static_cast<const T*>(buffer.contents);
    return {begin, begin + count};
  }

  id<MTLBuffer> buffer;
  MPSGraphTensorData* data;
  size_t count;
};

using Feeds = std::vector<std::pair<MPSGraphTensor*, MPSGraphTensorData*>>;

NSDictionary* dictionary(const Feeds& feeds) {
  NSMutableDictionary* result = [NSMutableDictionary dictionary];
  for (const auto& [tensor, data] : feeds) {
    [result setObject:data forKey:tensor];
  }
  return result;
}

void run(MPSGraph* graph, const Feeds& feeds, const Feeds& results) {
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  [graph encodeToCommandBuffer:commands
                         feeds:dictionary(feeds)
              targetOperations:nil
             resultsDictionary:dictionary(results)
           executionDescriptor:nil];
  finish(commands);
}

template <typename T>
MPSGraphTensor* placeholder(MPSGraph* graph, const std::vector<int64_t>& sizes, NSString* name = nil) {
  return [graph placeholderWithShape:shape(sizes) dataType:type_of<T>() name:name];
}

MPSGraph* new_graph() {
  return [[MPSGraph new] autorelease];
}

MPSGraphExecutable* compile(MPSGraph* graph,
                            NSArray<MPSGraphTensor*>* feeds,
                            NSArray<MPSGraphTensor*>* targets) {
  NSMutableDictionary* types = [NSMutableDictionary dictionary];
  for (MPSGraphTensor* feed in feeds) {
    types[feed] = [[[MPSGraphShapedType alloc] initWithShape:feed.shape dataType:feed.dataType] autorelease];
  }
  return [graph compileWithDevice:[MPSGraphDevice deviceWithMTLDevice:device()]
                            feeds:types
                    targetTensors:targets
                 targetOperations:nil
            compilationDescriptor:nil];
}

// The data in the order in which an executable wants it.
NSArray* in_order(NSArray<MPSGraphTensor*>* tensors, const Feeds& feeds) {
  NSDictionary* data = dictionary(feeds);
  NSMutableArray* ordered = [NSMutableArray array];
  for (MPSGraphTensor* tensor in tensors) {
    [ordered addObject:[data objectForKey:tensor]];
  }
  return ordered;
}

NSArray* run(MPSGraphExecutable* executable, NSArray* inputs, NSArray* results) {
  MPSCommandBuffer* commands = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
  results = [executable encodeToCommandBuffer:commands inputsArray:inputs resultsArray:results executionDescriptor:nil];
  finish(commands);
  return results;
}

NSArray* run(MPSGraphExecutable* executable, const Feeds& feeds, const Feeds& results) {
  return run(executable,
             in_order(executable.feedTensors, feeds),
             results.empty() ? nil : in_order(executable.targetTensors, results));
}

// Two inputs, one output.
template <typename T>
std::vector<T> apply_to_two(
    const std::vector<T>& a,
    const std::vector<T>& b,
    size_t count,
    const std::function<MPSGraphTensor*(MPSGraph*, MPSGraphTensor*, MPSGraphTensor*)>& operation) {
  MPSGraph* graph = new_graph();
  const std::vector<int64_t> sizes[] = {{int64_t(a.size())}, {int64_t(b.size())}, {int64_t(count)}};
  MPSGraphTensor* left = placeholder<T>(graph, sizes[0]);
  MPSGraphTensor* right = placeholder<T>(graph, sizes[1]);
  const Data<T> first(sizes[0], a), second(sizes[1], b), result(sizes[2], std::vector<T>(count));
  run(graph, {{left, first.data}, {right, second.data}}, {{operation(graph, left, right), result.data}});
  return result.values();
}

// One input, one output.
template <typename Out, typename In>
std::vector<Out> apply(const std::vector<int64_t>& in_sizes,
                       const std::vector<In>& in,
                       const std::vector<int64_t>& out_sizes,
                       size_t out_count,
                       const std::function<MPSGraphTensor*(MPSGraph*, MPSGraphTensor*)>& operation) {
  MPSGraph* graph = new_graph();
  MPSGraphTensor* input = placeholder<In>(graph, in_sizes);
  MPSGraphTensor* output = operation(graph, input);
  const Data<In> source(in_sizes, in);
  const Data<Out> result(out_sizes, std::vector<Out>(out_count));
  run(graph, {{input, source.data}}, {{output, result.data}});
  return result.values();
}

} // namespace
