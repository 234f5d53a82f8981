// Records the framework calls that a thread makes, and makes them again with nothing else around them: what a replay
// cannot be faster than. From the same recording it makes the calls of a replay that sets everything again.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>
#include <ObjFWRT/ObjFWRT.h>

#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

// An object that a recording keeps.
class Kept {
 public:
  Kept(id object = nil) : object_([object retain]) {}
  Kept(const Kept& other) : Kept(other.object_) {}
  Kept& operator=(Kept other) {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Kept() {
    [object_ release];
  }
  operator id() const {
    return object_;
  }

 private:
  id object_;
};
static_assert(sizeof(Kept) == sizeof(id));

const id* objects_of(const std::vector<Kept>& kept) {
  return reinterpret_cast<const id*>(kept.data());
}

// What recorded calls are made on.
struct Open {
  MPSCommandBuffer* commands;
  id<MTLComputeCommandEncoder> compute = nil;
  id<MTLBlitCommandEncoder> blit = nil;
};

// What a replay that sets everything again does differently, or what counts as a step.
enum class Kind { OPEN_COMPUTE, PIPELINE, BINDING, OFFSET, DISPATCH, GRAPH_RUN, OTHER_STEP, COMMIT, OTHER };

struct Call {
  Kind kind;
  std::function<void(Open&)> make;
  // The pipeline or the buffer.
  Kept object = nil;
  NSUInteger index = 0;
  NSUInteger offset = 0;
  // Of a call that binds several buffers: a call for each.
  std::vector<Call> parts = {};
  // Of a graph run: the same with new tensor data.
  std::function<void(Open&)> afresh = nullptr;
};

struct Recording {
  std::vector<Call> calls;
  std::vector<Call> rebinding;
};

Recording* recording = nullptr;
std::thread::id recorded_thread;
// Inside of a call that is recorded: what it calls in turn comes by itself.
int depth = 0;

struct Replaced {
  Class owner;
  SEL selector;
  IMP original;
  const char* types;
};
std::vector<Replaced> replaced;

// In place of a method: records what `Describe`, whose type is different for each, makes of its arguments.
template <typename Describe, typename Result, typename... Arguments>
struct Hook {
  static inline Result (*original)(id, SEL, Arguments...) = nullptr;
  static inline Call (*describe)(id, Arguments...) = nullptr;

  static Result called(id self, SEL selector, Arguments... arguments) {
    if (!recording || depth > 0 || std::this_thread::get_id() != recorded_thread) {
      return original(self, selector, arguments...);
    }
    recording->calls.push_back(describe(self, arguments...));
    ++depth;
    struct Leave {
      ~Leave() {
        --depth;
      }
    } leave;
    return original(self, selector, arguments...);
  }
};

template <typename Result, typename Describe, typename... Arguments>
void replace_method(Class owner, SEL selector, Describe describe, Call (Describe::*)(id, Arguments...) const) {
  using Hooked = Hook<Describe, Result, Arguments...>;
  const IMP original = class_getMethodImplementation(owner, selector);
  const char* types = method_getTypeEncoding(class_getInstanceMethod(owner, selector));
  Hooked::original = reinterpret_cast<Result (*)(id, SEL, Arguments...)>(original);
  Hooked::describe = describe;
  replaced.push_back({owner, selector, original, types});
  class_replaceMethod(owner, selector, reinterpret_cast<IMP>(&Hooked::called), types);
}

template <typename Result = void, typename Describe>
void hook(Class owner, SEL selector, Describe describe) {
  replace_method<Result>(owner, selector, describe, &Describe::operator());
}

id<MTLDevice> device() {
  static id<MTLDevice> found = MTLCreateSystemDefaultDevice();
  return found;
}

id<MTLCommandQueue> queue() {
  static id<MTLCommandQueue> made = [device() newCommandQueue];
  return made;
}

Call set_buffer(const Kept& buffer, NSUInteger offset, NSUInteger index) {
  return {
      Kind::BINDING,
      [=](Open& open) { [open.compute setBuffer:buffer offset:offset atIndex:index]; },
      buffer,
      index,
      offset};
}

void hook_compute(Class owner) {
  hook(owner, @selector(setComputePipelineState:), [](id, id state) {
    const Kept pipeline = state;
    return Call{Kind::PIPELINE, [=](Open& open) { [open.compute setComputePipelineState:pipeline]; }, pipeline};
  });
  hook(owner, @selector(setBuffer:offset:atIndex:), [](id, id buffer, NSUInteger offset, NSUInteger index) {
    return set_buffer(buffer, offset, index);
  });
  hook(owner, @selector(setBufferOffset:atIndex:), [](id, NSUInteger offset, NSUInteger index) {
    const auto make = [=](Open& open) { [open.compute setBufferOffset:offset atIndex:index]; };
    return Call{Kind::OFFSET, make, nil, index, offset};
  });
  hook(
      owner,
      @selector(setBuffers:offsets:withRange:),
      [](id, const id* buffers, const NSUInteger* offsets, NSRange range) {
        const std::vector<Kept> kept(buffers, buffers + range.length);
        const std::vector<NSUInteger> at(offsets, offsets + range.length);
        Call call{Kind::BINDING, [=](Open& open) {
                    [open.compute setBuffers:objects_of(kept) offsets:at.data() withRange:range];
                  }};
        for (size_t i = 0; i < range.length; ++i) {
          call.parts.push_back(set_buffer(kept[i], at[i], range.location + i));
        }
        return call;
      });
  hook(owner, @selector(setBytes:length:atIndex:), [](id, const void* bytes, NSUInteger length, NSUInteger index) {
    const auto* begin = static_cast<const uint8_t*>(bytes);
    const std::vector<uint8_t> kept(begin, begin + length);
    const auto make = [=](Open& open) { [open.compute setBytes:kept.data() length:kept.size() atIndex:index]; };
    return Call{Kind::BINDING, make, nil, index};
  });
  hook(owner, @selector(setThreadgroupMemoryLength:atIndex:), [](id, NSUInteger length, NSUInteger index) {
    return Call{Kind::OTHER, [=](Open& open) { [open.compute setThreadgroupMemoryLength:length atIndex:index]; }};
  });
  hook(owner, @selector(useResource:usage:), [](id, id resource, MTLResourceUsage usage) {
    return Call{Kind::OTHER, [usage, kept = Kept(resource)](Open& open) { [open.compute useResource:kept usage:usage]; }};
  });
  hook(
      owner, @selector(useResources:count:usage:), [](id, const id* resources, NSUInteger count, MTLResourceUsage usage) {
        const std::vector<Kept> kept(resources, resources + count);
        return Call{
            Kind::OTHER, [=](Open& open) { [open.compute useResources:objects_of(kept) count:count usage:usage]; }};
      });
  hook(owner, @selector(memoryBarrierWithScope:), [](id, MTLBarrierScope scope) {
    return Call{Kind::OTHER, [=](Open& open) { [open.compute memoryBarrierWithScope:scope]; }};
  });
  hook(owner, @selector(memoryBarrierWithResources:count:), [](id, const id* resources, NSUInteger count) {
    const std::vector<Kept> kept(resources, resources + count);
    return Call{Kind::OTHER, [=](Open& open) { [open.compute memoryBarrierWithResources:objects_of(kept) count:count]; }};
  });
  hook(owner, @selector(dispatchThreads:threadsPerThreadgroup:), [](id, MTLSize size, MTLSize group) {
    return Call{Kind::DISPATCH, [=](Open& open) { [open.compute dispatchThreads:size threadsPerThreadgroup:group]; }};
  });
  hook(owner, @selector(dispatchThreadgroups:threadsPerThreadgroup:), [](id, MTLSize size, MTLSize group) {
    return Call{
        Kind::DISPATCH, [=](Open& open) { [open.compute dispatchThreadgroups:size threadsPerThreadgroup:group]; }};
  });
  hook(owner, @selector(executeCommandsInBuffer:withRange:), [](id, id commands, NSRange range) {
    return Call{Kind::OTHER_STEP, [range, kept = Kept(commands)](Open& open) {
                  [open.compute executeCommandsInBuffer:kept withRange:range];
                }};
  });
  hook(owner, @selector(endEncoding), [](id) {
    return Call{Kind::OTHER, [](Open& open) { [open.compute endEncoding]; }};
  });
}

void hook_blit(Class owner) {
  hook(
      owner,
      @selector(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:),
      [](id, id source, NSUInteger source_offset, id destination, NSUInteger destination_offset, NSUInteger size) {
        const Kept from = source;
        const Kept to = destination;
        return Call{Kind::OTHER_STEP, [=](Open& open) {
                      [open.blit copyFromBuffer:from
                                   sourceOffset:source_offset
                                       toBuffer:to
                              destinationOffset:destination_offset
                                           size:size];
                    }};
      });
  hook(owner, @selector(fillBuffer:range:value:), [](id, id buffer, NSRange range, uint8_t value) {
    const Kept kept = buffer;
    return Call{Kind::OTHER_STEP, [=](Open& open) { [open.blit fillBuffer:kept range:range value:value]; }};
  });
  hook(owner, @selector(endEncoding), [](id) {
    return Call{Kind::OTHER, [](Open& open) { [open.blit endEncoding]; }};
  });
}

void hook_command_buffers(Class outer, Class inner) {
  hook<id>(outer, @selector(computeCommandEncoder), [](id) {
    return Call{Kind::OPEN_COMPUTE, [](Open& open) { open.compute = [open.commands computeCommandEncoder]; }};
  });
  hook<id>(outer, @selector(blitCommandEncoder), [](id) {
    return Call{Kind::OTHER, [](Open& open) { open.blit = [open.commands blitCommandEncoder]; }};
  });
  hook<id>(outer, @selector(computeCommandEncoderWithDispatchType:), [](id, MTLDispatchType type) {
    return Call{Kind::OPEN_COMPUTE, [=](Open& open) {
                  open.compute = [open.commands computeCommandEncoderWithDispatchType:type];
                }};
  });
  hook(outer, @selector(commitAndContinue), [](id) {
    return Call{Kind::COMMIT, [](Open& open) { [open.commands commitAndContinue]; }};
  });
  hook(inner, @selector(addCompletedHandler:), [](id, id) {
    return Call{Kind::OTHER, [](Open& open) {
                  [open.commands.commandBuffer addCompletedHandler:^(id<MTLCommandBuffer>){
                  }];
                }};
  });
}

// The arrays of tensor data, which keeps them.
std::vector<Kept> arrays_of(NSArray<MPSGraphTensorData*>* data) {
  std::vector<Kept> arrays;
  for (MPSGraphTensorData* one in data) {
    arrays.emplace_back(one.mpsndarray);
  }
  return arrays;
}

// New tensor data of arrays, as a replayer has it that keeps only the arrays.
NSArray<MPSGraphTensorData*>* fresh(const std::vector<Kept>& arrays) {
  NSMutableArray* result = [NSMutableArray arrayWithCapacity:arrays.size()];
  for (const auto& array : arrays) {
    [result addObject:[[[MPSGraphTensorData alloc] initWithMPSNDArray:array] autorelease]];
  }
  return result;
}

void run_graph(MPSGraphExecutable* executable, Open& open, id inputs, id results, id descriptor) {
  [executable encodeToCommandBuffer:open.commands
                        inputsArray:inputs
                       resultsArray:results
                executionDescriptor:descriptor];
}

void hook_others(Class device_class) {
  hook<id>(
      MPSGraphExecutable.class,
      @selector(encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:),
      [](id self, id, id inputs, id results, id descriptor) {
        Call call{Kind::GRAPH_RUN, nullptr};
        call.make = [self = Kept(self), in = Kept(inputs), out = Kept(results), how = Kept(descriptor)](Open& open) {
          @autoreleasepool {
            run_graph(self, open, in, out, how);
          }
        };
        call.afresh =
            [self = Kept(self), in = arrays_of(inputs), out = arrays_of(results), how = Kept(descriptor)](Open& open) {
              @autoreleasepool {
                run_graph(self, open, fresh(in), fresh(out), how);
              }
            };
        return call;
      });
  hook<id>(device_class, @selector(newBufferWithLength:options:), [](id, NSUInteger length, MTLResourceOptions options) {
    return Call{Kind::OTHER, [=](Open&) { [[device() newBufferWithLength:length options:options] release]; }};
  });
}

using Bound = std::map<NSUInteger, Call>;

void bind(Bound& bound, const Call& call) {
  if (call.kind == Kind::OFFSET) {
    bound.insert_or_assign(call.index, set_buffer(bound.at(call.index).object, call.offset, call.index));
  } else if (call.parts.empty()) {
    bound.insert_or_assign(call.index, call);
  } else {
    for (const auto& part : call.parts) {
      bound.insert_or_assign(part.index, part);
    }
  }
}

// Before each dispatch: its pipeline, and all that eager binds for that pipeline.
std::vector<Call> rebinding_of(const std::vector<Call>& calls, const std::map<id, std::set<NSUInteger>>& used) {
  std::vector<Call> result;
  Bound bound;
  Call pipeline{Kind::PIPELINE, nullptr};
  for (const auto& call : calls) {
    if (call.kind == Kind::PIPELINE) {
      pipeline = call;
      continue;
    }
    if (call.kind == Kind::BINDING || call.kind == Kind::OFFSET) {
      bind(bound, call);
      continue;
    }
    if (call.kind == Kind::OPEN_COMPUTE) {
      bound.clear();
    } else if (call.kind == Kind::DISPATCH) {
      result.push_back(pipeline);
      const auto indices = used.find(pipeline.object);
      for (const auto& [index, binding] : bound) {
        if (indices == used.end() || indices->second.count(index)) {
          result.push_back(binding);
        }
      }
    }
    result.push_back(call);
    if (call.kind == Kind::GRAPH_RUN) {
      result.back().make = call.afresh;
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
    if (call.kind == Kind::OPEN_COMPUTE) {
      since.clear();
    } else if (call.kind == Kind::PIPELINE) {
      pipeline = call.object;
    } else if (call.kind == Kind::DISPATCH) {
      result[pipeline].insert(since.begin(), since.end());
      since.clear();
    } else if (call.kind == Kind::OFFSET || (call.kind == Kind::BINDING && call.parts.empty())) {
      since.insert(call.index);
    }
    for (const auto& part : call.parts) {
      since.insert(part.index);
    }
  }
  return result;
}

MPSCommandBuffer* current = nil;

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
    if (!current) {
      current = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    }
    Open open{current};
    for (const auto& call : rebind ? made->rebinding : made->calls) {
      call.make(open);
    }
  }
}

/// How many steps (dispatches, graph runs, copies and fills) are encoded before the first commit.
PUBLIC size_t bare_loop_steps_before_commit(void* replay) {
  size_t steps = 0;
  for (const auto& call : static_cast<Recording*>(replay)->calls) {
    if (call.kind == Kind::COMMIT) {
      break;
    }
    steps += call.kind == Kind::DISPATCH || call.kind == Kind::GRAPH_RUN || call.kind == Kind::OTHER_STEP;
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
