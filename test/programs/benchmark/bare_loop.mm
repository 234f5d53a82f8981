// Records the framework calls that a thread makes, and makes them again with nothing else around them: what a replay
// cannot be faster than. From the same recording it makes the calls of a replay that sets everything again.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>
#include <ObjFWRT/ObjFWRT.h>

#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace {

enum class Kind : uint8_t {
  OPEN_COMPUTE,
  OPEN_CONCURRENT,
  OPEN_BLIT,
  END_COMPUTE,
  END_BLIT,
  SET_PIPELINE,
  SET_BUFFER,
  SET_BUFFERS,
  SET_OFFSET,
  SET_BYTES,
  SET_THREADGROUP_MEMORY,
  USE_RESOURCE,
  USE_RESOURCES,
  BARRIER,
  BARRIER_OF_RESOURCES,
  DISPATCH_THREADS,
  DISPATCH_THREADGROUPS,
  EXECUTE_COMMANDS,
  RUN_GRAPH,
  RUN_GRAPH_FRESH,
  COPY,
  FILL,
  NEW_BUFFER,
  HANDLER,
  COMMIT,
};

// What is set is what its kind needs; objects are kept by their recording.
struct Call {
  Kind kind;
  id object = nil;
  id other = nil;
  id third = nil;
  id fourth = nil;
  NSUInteger first = 0;
  NSUInteger second = 0;
  NSUInteger length = 0;
  MTLSize size = {0, 0, 0};
  MTLSize group = {0, 0, 0};
  std::vector<uint8_t> bytes;
  std::vector<id> objects;
  std::vector<NSUInteger> offsets;
};

struct Recording {
  std::vector<Call> calls;
  std::vector<Call> rebinding;

  ~Recording() {
    for (auto& call : calls) {
      for (id object : {call.object, call.other, call.third, call.fourth}) {
        [object release];
      }
      for (id object : call.objects) {
        [object release];
      }
    }
  }
};

Recording* recording = nullptr;
std::thread::id recorded_thread;
// Inside of a call that is recorded: what it calls in turn comes by itself.
int depth = 0;

bool records() {
  return recording && depth == 0 && std::this_thread::get_id() == recorded_thread;
}

void record(Call call) {
  for (id object : {call.object, call.other, call.third, call.fourth}) {
    [object retain];
  }
  for (id object : call.objects) {
    [object retain];
  }
  recording->calls.push_back(std::move(call));
}

struct Inside {
  Inside() {
    ++depth;
  }
  ~Inside() {
    --depth;
  }
};

// Each method that is recorded, with what it does otherwise.
template <int id_, typename Result, typename... Arguments>
struct Hook {
  using Function = Result (*)(id, SEL, Arguments...);
  static Function original;
  static Call (*describe)(id, Arguments...);

  static Result called(id self, SEL selector, Arguments... arguments) {
    if (!records()) {
      return original(self, selector, arguments...);
    }
    record(describe(self, arguments...));
    Inside inside;
    return original(self, selector, arguments...);
  }
};
template <int id_, typename Result, typename... Arguments>
typename Hook<id_, Result, Arguments...>::Function Hook<id_, Result, Arguments...>::original = nullptr;
template <int id_, typename Result, typename... Arguments>
Call (*Hook<id_, Result, Arguments...>::describe)(id, Arguments...) = nullptr;

struct Replaced {
  Class owner;
  SEL selector;
  IMP original;
  const char* types;
};
std::vector<Replaced> replaced;

template <int id_, typename Result, typename... Arguments>
void hook(Class owner, SEL selector, Call (*describe)(id, Arguments...)) {
  using Hooked = Hook<id_, Result, Arguments...>;
  const IMP original = class_getMethodImplementation(owner, selector);
  const char* types = method_getTypeEncoding(class_getInstanceMethod(owner, selector));
  Hooked::original = reinterpret_cast<typename Hooked::Function>(original);
  Hooked::describe = describe;
  replaced.push_back({owner, selector, original, types});
  class_replaceMethod(owner, selector, reinterpret_cast<IMP>(&Hooked::called), types);
}

id<MTLDevice> device() {
  static id<MTLDevice> found = MTLCreateSystemDefaultDevice();
  return found;
}

id<MTLCommandQueue> queue() {
  static id<MTLCommandQueue> made = [device() newCommandQueue];
  return made;
}

Call plain(Kind kind, id object = nil, NSUInteger first = 0, NSUInteger second = 0) {
  Call call{kind};
  call.object = object;
  call.first = first;
  call.second = second;
  return call;
}

void hook_compute(Class owner) {
  hook<0, void, id>(owner, @selector(setComputePipelineState:), +[](id, id pipeline) {
    return plain(Kind::SET_PIPELINE, pipeline);
  });
  hook<1, void, id, NSUInteger, NSUInteger>(
      owner, @selector(setBuffer:offset:atIndex:), +[](id, id buffer, NSUInteger offset, NSUInteger index) {
        return plain(Kind::SET_BUFFER, buffer, offset, index);
      });
  hook<2, void, NSUInteger, NSUInteger>(
      owner, @selector(setBufferOffset:atIndex:), +[](id, NSUInteger offset, NSUInteger index) {
        return plain(Kind::SET_OFFSET, nil, offset, index);
      });
  hook<3, void, const void*, NSUInteger, NSUInteger>(
      owner, @selector(setBytes:length:atIndex:), +[](id, const void* bytes, NSUInteger length, NSUInteger index) {
        auto call = plain(Kind::SET_BYTES, nil, 0, index);
        const auto* begin = static_cast<const uint8_t*>(bytes);
        call.bytes.assign(begin, begin + length);
        return call;
      });
  hook<4, void, NSUInteger, NSUInteger>(
      owner, @selector(setThreadgroupMemoryLength:atIndex:), +[](id, NSUInteger length, NSUInteger index) {
        return plain(Kind::SET_THREADGROUP_MEMORY, nil, length, index);
      });
  hook<5, void, id, MTLResourceUsage>(owner, @selector(useResource:usage:), +[](id, id resource, MTLResourceUsage usage) {
    return plain(Kind::USE_RESOURCE, resource, usage);
  });
  hook<6, void, MTLBarrierScope>(owner, @selector(memoryBarrierWithScope:), +[](id, MTLBarrierScope scope) {
    return plain(Kind::BARRIER, nil, scope);
  });
  hook<7, void, const id*, NSUInteger>(
      owner, @selector(memoryBarrierWithResources:count:), +[](id, const id* resources, NSUInteger count) {
        auto call = plain(Kind::BARRIER_OF_RESOURCES);
        call.objects.assign(resources, resources + count);
        return call;
      });
  hook<8, void, MTLSize, MTLSize>(
      owner, @selector(dispatchThreads:threadsPerThreadgroup:), +[](id, MTLSize size, MTLSize group) {
        auto call = plain(Kind::DISPATCH_THREADS);
        call.size = size;
        call.group = group;
        return call;
      });
  hook<9, void, MTLSize, MTLSize>(
      owner, @selector(dispatchThreadgroups:threadsPerThreadgroup:), +[](id, MTLSize size, MTLSize group) {
        auto call = plain(Kind::DISPATCH_THREADGROUPS);
        call.size = size;
        call.group = group;
        return call;
      });
  hook<10, void, id, NSRange>(owner, @selector(executeCommandsInBuffer:withRange:), +[](id, id commands, NSRange range) {
    return plain(Kind::EXECUTE_COMMANDS, commands, range.location, range.length);
  });
  hook<11, void>(owner, @selector(endEncoding), +[](id) { return plain(Kind::END_COMPUTE); });
  hook<22, void, const id*, const NSUInteger*, NSRange>(
      owner,
      @selector(setBuffers:offsets:withRange:),
      +[](id, const id* buffers, const NSUInteger* offsets, NSRange range) {
        auto call = plain(Kind::SET_BUFFERS, nil, 0, range.location);
        call.objects.assign(buffers, buffers + range.length);
        call.offsets.assign(offsets, offsets + range.length);
        return call;
      });
  hook<23, void, const id*, NSUInteger, MTLResourceUsage>(
      owner,
      @selector(useResources:count:usage:),
      +[](id, const id* resources, NSUInteger count, MTLResourceUsage usage) {
        auto call = plain(Kind::USE_RESOURCES, nil, usage);
        call.objects.assign(resources, resources + count);
        return call;
      });
}

void hook_blit(Class owner) {
  hook<12, void, id, NSUInteger, id, NSUInteger, NSUInteger>(
      owner,
      @selector(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:),
      +[](id, id source, NSUInteger source_offset, id destination, NSUInteger destination_offset, NSUInteger size) {
        auto call = plain(Kind::COPY, source, source_offset, destination_offset);
        call.other = destination;
        call.length = size;
        return call;
      });
  hook<13, void, id, NSRange, uint8_t>(
      owner, @selector(fillBuffer:range:value:), +[](id, id buffer, NSRange range, uint8_t value) {
        auto call = plain(Kind::FILL, buffer, range.location, range.length);
        call.length = value;
        return call;
      });
  hook<14, void>(owner, @selector(endEncoding), +[](id) { return plain(Kind::END_BLIT); });
}

void hook_command_buffers(Class outer, Class inner) {
  hook<15, id>(outer, @selector(computeCommandEncoder), +[](id) { return plain(Kind::OPEN_COMPUTE); });
  hook<16, id>(outer, @selector(blitCommandEncoder), +[](id) { return plain(Kind::OPEN_BLIT); });
  hook<17, id, MTLDispatchType>(
      outer, @selector(computeCommandEncoderWithDispatchType:), +[](id, MTLDispatchType type) {
        return plain(type == MTLDispatchTypeConcurrent ? Kind::OPEN_CONCURRENT : Kind::OPEN_COMPUTE);
      });
  hook<18, void>(outer, @selector(commitAndContinue), +[](id) { return plain(Kind::COMMIT); });
  hook<19, void, id>(inner, @selector(addCompletedHandler:), +[](id, id) { return plain(Kind::HANDLER); });
}

void hook_others(Class device_class) {
  hook<20, id, id, id, id, id>(
      MPSGraphExecutable.class,
      @selector(encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:),
      +[](id self, id, id inputs, id results, id descriptor) {
        auto call = plain(Kind::RUN_GRAPH, self);
        call.other = inputs;
        call.third = results;
        call.fourth = descriptor;
        return call;
      });
  hook<21, id, NSUInteger, MTLResourceOptions>(
      device_class, @selector(newBufferWithLength:options:), +[](id, NSUInteger length, MTLResourceOptions options) {
        return plain(Kind::NEW_BUFFER, nil, length, options);
      });
}

// New tensor data of arrays, as a replayer has it that keeps only the arrays.
NSArray<MPSGraphTensorData*>* fresh(const std::vector<id>& arrays, size_t begin, size_t end) {
  NSMutableArray* result = [NSMutableArray arrayWithCapacity:end - begin];
  for (size_t i = begin; i < end; ++i) {
    [result addObject:[[[MPSGraphTensorData alloc] initWithMPSNDArray:arrays[i]] autorelease]];
  }
  return result;
}

// The recorded tensor data keeps the arrays.
Call fresh_run(const Call& run) {
  Call call = run;
  call.kind = Kind::RUN_GRAPH_FRESH;
  for (NSArray<MPSGraphTensorData*>* data in @[ run.other, run.third ]) {
    for (MPSGraphTensorData* one in data) {
      call.objects.push_back(one.mpsndarray);
    }
  }
  call.first = [run.other count];
  return call;
}

// Before each dispatch: its pipeline, and all that eager binds for that pipeline.
std::vector<Call> rebinding_of(const std::vector<Call>& calls, const std::map<id, std::set<NSUInteger>>& used) {
  std::vector<Call> result;
  std::map<NSUInteger, Call> bound;
  Call pipeline{Kind::SET_PIPELINE};
  for (const auto& call : calls) {
    switch (call.kind) {
      case Kind::SET_PIPELINE:
        pipeline = call;
        break;
      case Kind::SET_BUFFER:
      case Kind::SET_BYTES:
        bound.insert_or_assign(call.second, call);
        break;
      case Kind::SET_BUFFERS:
        for (size_t i = 0; i < call.objects.size(); ++i) {
          auto one = plain(Kind::SET_BUFFER, call.objects[i], call.offsets[i], call.second + i);
          bound.insert_or_assign(one.second, one);
        }
        break;
      case Kind::SET_OFFSET: {
        auto& before = bound.at(call.second);
        before.first = call.first;
        break;
      }
      case Kind::OPEN_COMPUTE:
      case Kind::OPEN_CONCURRENT:
        bound.clear();
        result.push_back(call);
        break;
      case Kind::DISPATCH_THREADS:
      case Kind::DISPATCH_THREADGROUPS: {
        result.push_back(pipeline);
        const auto indices = used.find(pipeline.object);
        for (const auto& [index, binding] : bound) {
          if (indices == used.end() || indices->second.count(index)) {
            result.push_back(binding);
          }
        }
        result.push_back(call);
        break;
      }
      case Kind::RUN_GRAPH:
        result.push_back(fresh_run(call));
        break;
      default:
        result.push_back(call);
        break;
    }
  }
  return result;
}

// By pipeline: the indices that are set for its dispatches.
std::map<id, std::set<NSUInteger>> indices_of(const std::vector<Call>& calls) {
  std::map<id, std::set<NSUInteger>> result;
  std::set<NSUInteger> since;
  id pipeline = nil;
  for (const auto& call : calls) {
    switch (call.kind) {
      case Kind::OPEN_COMPUTE:
        since.clear();
        break;
      case Kind::SET_PIPELINE:
        pipeline = call.object;
        break;
      case Kind::SET_BUFFER:
      case Kind::SET_BYTES:
      case Kind::SET_OFFSET:
        since.insert(call.second);
        break;
      case Kind::SET_BUFFERS:
        for (size_t i = 0; i < call.objects.size(); ++i) {
          since.insert(call.second + i);
        }
        break;
      case Kind::DISPATCH_THREADS:
      case Kind::DISPATCH_THREADGROUPS:
        result[pipeline].insert(since.begin(), since.end());
        since.clear();
        break;
      default:
        break;
    }
  }
  return result;
}

MPSCommandBuffer* current = nil;

void make(const std::vector<Call>& calls) {
  id<MTLComputeCommandEncoder> compute = nil;
  id<MTLBlitCommandEncoder> blit = nil;
  if (!current) {
    current = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
  }
  for (const auto& call : calls) {
    switch (call.kind) {
      case Kind::OPEN_COMPUTE:
        compute = [current computeCommandEncoder];
        break;
      case Kind::OPEN_CONCURRENT:
        compute = [current computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
        break;
      case Kind::OPEN_BLIT:
        blit = [current blitCommandEncoder];
        break;
      case Kind::END_COMPUTE:
        [compute endEncoding];
        break;
      case Kind::END_BLIT:
        [blit endEncoding];
        break;
      case Kind::SET_PIPELINE:
        [compute setComputePipelineState:call.object];
        break;
      case Kind::SET_BUFFER:
        [compute setBuffer:call.object offset:call.first atIndex:call.second];
        break;
      case Kind::SET_BUFFERS:
        [compute setBuffers:call.objects.data()
                    offsets:call.offsets.data()
                  withRange:NSMakeRange(call.second, call.objects.size())];
        break;
      case Kind::SET_OFFSET:
        [compute setBufferOffset:call.first atIndex:call.second];
        break;
      case Kind::SET_BYTES:
        [compute setBytes:call.bytes.data() length:call.bytes.size() atIndex:call.second];
        break;
      case Kind::SET_THREADGROUP_MEMORY:
        [compute setThreadgroupMemoryLength:call.first atIndex:call.second];
        break;
      case Kind::USE_RESOURCE:
        [compute useResource:call.object usage:static_cast<MTLResourceUsage>(call.first)];
        break;
      case Kind::USE_RESOURCES:
        [compute useResources:call.objects.data()
                        count:call.objects.size()
                        usage:static_cast<MTLResourceUsage>(call.first)];
        break;
      case Kind::BARRIER:
        [compute memoryBarrierWithScope:static_cast<MTLBarrierScope>(call.first)];
        break;
      case Kind::BARRIER_OF_RESOURCES:
        [compute memoryBarrierWithResources:call.objects.data() count:call.objects.size()];
        break;
      case Kind::DISPATCH_THREADS:
        [compute dispatchThreads:call.size threadsPerThreadgroup:call.group];
        break;
      case Kind::DISPATCH_THREADGROUPS:
        [compute dispatchThreadgroups:call.size threadsPerThreadgroup:call.group];
        break;
      case Kind::EXECUTE_COMMANDS:
        [compute executeCommandsInBuffer:call.object withRange:NSMakeRange(call.first, call.second)];
        break;
      case Kind::RUN_GRAPH:
        @autoreleasepool {
          [(MPSGraphExecutable*)call.object encodeToCommandBuffer:current
                                                      inputsArray:call.other
                                                     resultsArray:call.third
                                              executionDescriptor:call.fourth];
        }
        break;
      case Kind::RUN_GRAPH_FRESH:
        @autoreleasepool {
          [(MPSGraphExecutable*)call.object encodeToCommandBuffer:current
                                                      inputsArray:fresh(call.objects, 0, call.first)
                                                     resultsArray:fresh(call.objects, call.first, call.objects.size())
                                              executionDescriptor:call.fourth];
        }
        break;
      case Kind::COPY:
        [blit copyFromBuffer:call.object
                 sourceOffset:call.first
                     toBuffer:call.other
            destinationOffset:call.second
                         size:call.length];
        break;
      case Kind::FILL:
        [blit fillBuffer:call.object
                   range:NSMakeRange(call.first, call.second)
                   value:static_cast<uint8_t>(call.length)];
        break;
      case Kind::NEW_BUFFER:
        [[device() newBufferWithLength:call.first options:static_cast<MTLResourceOptions>(call.second)] release];
        break;
      case Kind::HANDLER:
        [current.commandBuffer addCompletedHandler:^(id<MTLCommandBuffer>){
        }];
        break;
      case Kind::COMMIT:
        [current commitAndContinue];
        break;
    }
  }
}

} // namespace

#define PUBLIC extern "C" __attribute__((visibility("default")))

/// Records what this thread calls from here on.
PUBLIC void bare_loop_start() {
  @autoreleasepool {
    MPSCommandBuffer* outer = [MPSCommandBuffer commandBufferFromCommandQueue:queue()];
    id<MTLComputeCommandEncoder> compute = [outer computeCommandEncoder];
    [compute endEncoding];
    id<MTLBlitCommandEncoder> blit = [outer blitCommandEncoder];
    [blit endEncoding];
    hook_compute(object_getClass(compute));
    hook_blit(object_getClass(blit));
    hook_command_buffers(object_getClass(outer), object_getClass(outer.commandBuffer));
    hook_others(object_getClass(device()));
    [outer.commandBuffer commit];
  }
  recorded_thread = std::this_thread::get_id();
  recording = new Recording;
}

/// Ends it; the recording is freed with bare_loop_free().
PUBLIC void* bare_loop_stop() {
  for (const auto& one : replaced) {
    class_replaceMethod(one.owner, one.selector, one.original, one.types);
  }
  replaced.clear();
  auto* result = recording;
  recording = nullptr;
  return result;
}

/// Prepares the calls that set everything again; `eager` tells which indices each pipeline needs.
PUBLIC void bare_loop_prepare_rebinding(void* replay, void* eager) {
  @autoreleasepool {
    auto* made = static_cast<Recording*>(replay);
    made->rebinding = rebinding_of(made->calls, indices_of(static_cast<Recording*>(eager)->calls));
  }
}

/// Makes the calls once, as they were recorded or with everything set again.
PUBLIC void bare_loop_run(void* replay, int rebind) {
  @autoreleasepool {
    const auto* made = static_cast<Recording*>(replay);
    make(rebind ? made->rebinding : made->calls);
  }
}

/// How many steps (dispatches, graph runs, copies and fills) are encoded before the first commit.
PUBLIC size_t bare_loop_steps_before_commit(void* replay) {
  size_t steps = 0;
  for (const auto& call : static_cast<Recording*>(replay)->calls) {
    switch (call.kind) {
      case Kind::COMMIT:
        return steps;
      case Kind::DISPATCH_THREADS:
      case Kind::DISPATCH_THREADGROUPS:
      case Kind::EXECUTE_COMMANDS:
      case Kind::RUN_GRAPH:
      case Kind::COPY:
      case Kind::FILL:
        ++steps;
        break;
      default:
        break;
    }
  }
  return steps;
}

/// Waits until all that was made is done.
PUBLIC void bare_loop_wait() {
  @autoreleasepool {
    if (!current) {
      return;
    }
    id<MTLCommandBuffer> last = [[current.commandBuffer retain] autorelease];
    [last commit];
    [last waitUntilCompleted];
    [current release];
    current = nil;
  }
}

PUBLIC void bare_loop_free(void* replay) {
  @autoreleasepool {
    delete static_cast<Recording*>(replay);
  }
}
