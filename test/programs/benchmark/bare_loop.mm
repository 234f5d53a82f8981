// Records the framework calls that a thread makes, and makes them again with nothing else around them: what a replay
// cannot be faster than.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>
#include <ObjFWRT/ObjFWRT.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
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

// What counts as a step, and what ends a command buffer.
enum class Kind { STEP, COMMIT, OTHER };

struct Call {
  Kind kind;
  std::function<void(Open&)> make;
};

struct Recording {
  std::vector<Call> calls;

  ~Recording() {
    @autoreleasepool {
      calls.clear();
    }
  }
};

std::unique_ptr<Recording> recording;
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

void hook_compute(Class owner) {
  hook(owner, @selector(setComputePipelineState:), [](id, id state) {
    const Kept pipeline = state;
    return Call{Kind::OTHER, [=](Open& open) { [open.compute setComputePipelineState:pipeline]; }};
  });
  hook(owner, @selector(setBuffer:offset:atIndex:), [](id, id buffer, NSUInteger offset, NSUInteger index) {
    return Call{Kind::OTHER, [=, kept = Kept(buffer)](Open& open) {
                  [open.compute setBuffer:kept offset:offset atIndex:index];
                }};
  });
  hook(owner, @selector(setBufferOffset:atIndex:), [](id, NSUInteger offset, NSUInteger index) {
    return Call{Kind::OTHER, [=](Open& open) { [open.compute setBufferOffset:offset atIndex:index]; }};
  });
  hook(
      owner,
      @selector(setBuffers:offsets:withRange:),
      [](id, const id* buffers, const NSUInteger* offsets, NSRange range) {
        const std::vector<Kept> kept(buffers, buffers + range.length);
        const std::vector<NSUInteger> at(offsets, offsets + range.length);
        return Call{Kind::OTHER, [=](Open& open) {
                      [open.compute setBuffers:objects_of(kept) offsets:at.data() withRange:range];
                    }};
      });
  hook(owner, @selector(setBytes:length:atIndex:), [](id, const void* bytes, NSUInteger length, NSUInteger index) {
    const auto* begin = static_cast<const uint8_t*>(bytes);
    const std::vector<uint8_t> kept(begin, begin + length);
    return Call{
        Kind::OTHER, [=](Open& open) { [open.compute setBytes:kept.data() length:kept.size() atIndex:index]; }};
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
    return Call{Kind::STEP, [=](Open& open) { [open.compute dispatchThreads:size threadsPerThreadgroup:group]; }};
  });
  hook(owner, @selector(dispatchThreadgroups:threadsPerThreadgroup:), [](id, MTLSize size, MTLSize group) {
    return Call{
        Kind::STEP, [=](Open& open) { [open.compute dispatchThreadgroups:size threadsPerThreadgroup:group]; }};
  });
  hook(owner, @selector(executeCommandsInBuffer:withRange:), [](id, id commands, NSRange range) {
    return Call{Kind::STEP, [range, kept = Kept(commands)](Open& open) {
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
        return Call{Kind::STEP, [=](Open& open) {
                      [open.blit copyFromBuffer:from
                                   sourceOffset:source_offset
                                       toBuffer:to
                              destinationOffset:destination_offset
                                           size:size];
                    }};
      });
  hook(owner, @selector(fillBuffer:range:value:), [](id, id buffer, NSRange range, uint8_t value) {
    const Kept kept = buffer;
    return Call{Kind::STEP, [=](Open& open) { [open.blit fillBuffer:kept range:range value:value]; }};
  });
  hook(owner, @selector(endEncoding), [](id) {
    return Call{Kind::OTHER, [](Open& open) { [open.blit endEncoding]; }};
  });
}

void hook_command_buffers(Class outer, Class inner) {
  hook<id>(outer, @selector(computeCommandEncoder), [](id) {
    return Call{Kind::OTHER, [](Open& open) { open.compute = [open.commands computeCommandEncoder]; }};
  });
  hook<id>(outer, @selector(blitCommandEncoder), [](id) {
    return Call{Kind::OTHER, [](Open& open) { open.blit = [open.commands blitCommandEncoder]; }};
  });
  hook<id>(outer, @selector(computeCommandEncoderWithDispatchType:), [](id, MTLDispatchType type) {
    return Call{Kind::OTHER, [=](Open& open) {
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

void hook_others(Class device_class) {
  hook<id>(
      MPSGraphExecutable.class,
      @selector(encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:),
      [](id self, id, id inputs, id results, id descriptor) {
        return Call{
            Kind::STEP,
            [self = Kept(self), in = Kept(inputs), out = Kept(results), how = Kept(descriptor)](Open& open) {
              @autoreleasepool {
                [(MPSGraphExecutable*)(id)self encodeToCommandBuffer:open.commands
                                                         inputsArray:in
                                                        resultsArray:out
                                                 executionDescriptor:how];
              }
            }};
      });
  hook<id>(device_class, @selector(newBufferWithLength:options:), [](id, NSUInteger length, MTLResourceOptions options) {
    return Call{Kind::OTHER, [=](Open&) { [[device() newBufferWithLength:length options:options] release]; }};
  });
}

MPSCommandBuffer* current = nil;

/// Records what this thread calls from here on.
void start() {
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
  recording = std::make_unique<Recording>();
}

/// Ends it.
std::unique_ptr<Recording> stop() {
  for (const auto& one : replaced) {
    class_replaceMethod(one.owner, one.selector, one.original, one.types);
  }
  replaced.clear();
  return std::move(recording);
}

/// Makes the calls once, as they were recorded.
void run(const Recording& replay) {
  @autoreleasepool {
    if (!current) {
      current = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    }
    Open open{current};
    for (const auto& call : replay.calls) {
      call.make(open);
    }
  }
}

/// How many steps (dispatches, graph runs, copies and fills) are encoded before the first commit.
size_t steps_before_commit(const Recording& replay) {
  size_t steps = 0;
  for (const auto& call : replay.calls) {
    if (call.kind == Kind::COMMIT) {
      break;
    }
    steps += call.kind == Kind::STEP;
  }
  return steps;
}

/// Waits until all that was made is done.
void wait() {
  @autoreleasepool {
    if (current) {
      id<MTLCommandBuffer> last = [[current.commandBuffer retain] autorelease];
      [last commit];
      [last waitUntilCompleted];
      [current release];
      current = nil;
    }
  }
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;
  pybind11::class_<Recording>(module, "Recording")
      .def("run", run, Unlocked())
      .def("steps_before_commit", steps_before_commit);
  module.def("start", start).def("stop", stop).def("wait", wait, Unlocked());
}
