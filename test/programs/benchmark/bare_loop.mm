// Records the framework calls that a thread makes, and makes them again with nothing else around them: what a replay
// cannot be faster than.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>
#include <ObjFWRT/ObjFWRT.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
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

// Copies of arguments: values, objects, and arrays of so many.
template <typename Argument>
struct Copy {
  Argument value;
  Copy(Argument argument, NSUInteger) : value(argument) {}
  Argument get() const {
    return value;
  }
};
template <>
struct Copy<id> {
  Kept value;
  Copy(id argument, NSUInteger) : value(argument) {}
  id get() const {
    return value;
  }
};
template <typename Element>
struct Copy<const Element*> {
  std::vector<std::conditional_t<std::is_same_v<Element, id>, Kept, Element>> values;
  Copy(const Element* first, NSUInteger count) : values(first, first + count) {}
  const Element* get() const {
    return reinterpret_cast<const Element*>(values.data());
  }
};

// How many there are in arrays: what the first number says that comes with them.
NSUInteger count_of() {
  return 0;
}
template <typename First, typename... Others>
NSUInteger count_of(First first, Others... others) {
  if constexpr (std::is_same_v<First, NSUInteger>) {
    return first;
  } else if constexpr (std::is_same_v<First, NSRange>) {
    return first.length;
  } else {
    return count_of(others...);
  }
}

id<MTLDevice> device() {
  static id<MTLDevice> found = MTLCreateSystemDefaultDevice();
  return found;
}

id<MTLCommandQueue> queue() {
  static id<MTLCommandQueue> made = [device() newCommandQueue];
  return made;
}

// What recorded calls are made on.
struct Open {
  id commands;
  id device = ::device();
  id compute = nil;
  id blit = nil;
};

// What counts as a step, and what ends a command buffer.
enum class Kind { OTHER, STEP, COMMIT };
using Make = std::function<void(Open&)>;

struct Recording {
  std::vector<std::pair<Kind, Make>> calls;

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
// Put back the methods that are replaced.
std::vector<std::function<void()>> restores;

// In place of methods of one type: records what `describe` makes of the arguments.
template <typename Result, typename... Arguments>
struct Hook {
  using Method = Result (*)(id, SEL, Arguments...);
  Kind kind;
  std::function<Make(id, Arguments...)> describe;
  Method original;
  static inline std::map<std::pair<Class, std::string>, Hook> hooks;

  static Result called(id self, SEL selector, Arguments... arguments) {
    const auto& hook = hooks.at({object_getClass(self), sel_getName(selector)});
    if (!recording || depth > 0 || std::this_thread::get_id() != recorded_thread) {
      return hook.original(self, selector, arguments...);
    }
    recording->calls.emplace_back(hook.kind, hook.describe(self, arguments...));
    ++depth;
    struct Leave {
      ~Leave() {
        --depth;
      }
    } leave;
    return hook.original(self, selector, arguments...);
  }
};

template <typename Hooked, typename Describe>
void replace(Class owner, SEL selector, Kind kind, Describe describe) {
  const IMP original = class_getMethodImplementation(owner, selector);
  const char* types = method_getTypeEncoding(class_getInstanceMethod(owner, selector));
  const auto typed = reinterpret_cast<typename Hooked::Method>(original);
  Hooked::hooks[{owner, sel_getName(selector)}] = {kind, describe, typed};
  restores.push_back([=] { class_replaceMethod(owner, selector, original, types); });
  class_replaceMethod(owner, selector, reinterpret_cast<IMP>(&Hooked::called), types);
}

// The method is called again on what is `on`, with the same arguments; what it gives is opened, or of no use.
template <typename Result = void, typename... Arguments>
void again(Class owner, SEL selector, id Open::*on, Kind kind = Kind::OTHER, id Open::*opened = nullptr) {
  using Hooked = Hook<Result, Arguments...>;
  replace<Hooked>(owner, selector, kind, [=](id, Arguments... arguments) -> Make {
    const std::tuple<Copy<Arguments>...> copies{Copy<Arguments>(arguments, count_of(arguments...))...};
    return [=](Open& open) {
      const auto method = reinterpret_cast<typename Hooked::Method>(objc_msg_lookup(open.*on, selector));
      const auto call = [&](const auto&... all) { return method(open.*on, selector, all.get()...); };
      if constexpr (std::is_void_v<Result>) {
        std::apply(call, copies);
      } else if (opened) {
        open.*opened = std::apply(call, copies);
      } else {
        [std::apply(call, copies) release];
      }
    };
  });
}

void hook_compute(Class owner) {
  const auto on = &Open::compute;
  again<void, id>(owner, @selector(setComputePipelineState:), on);
  again<void, id, NSUInteger, NSUInteger>(owner, @selector(setBuffer:offset:atIndex:), on);
  again<void, NSUInteger, NSUInteger>(owner, @selector(setBufferOffset:atIndex:), on);
  again<void, const id*, const NSUInteger*, NSRange>(owner, @selector(setBuffers:offsets:withRange:), on);
  again<void, const uint8_t*, NSUInteger, NSUInteger>(owner, @selector(setBytes:length:atIndex:), on);
  again<void, NSUInteger, NSUInteger>(owner, @selector(setThreadgroupMemoryLength:atIndex:), on);
  again<void, id, NSUInteger>(owner, @selector(useResource:usage:), on);
  again<void, const id*, NSUInteger, NSUInteger>(owner, @selector(useResources:count:usage:), on);
  again<void, NSUInteger>(owner, @selector(memoryBarrierWithScope:), on);
  again<void, const id*, NSUInteger>(owner, @selector(memoryBarrierWithResources:count:), on);
  again<void, MTLSize, MTLSize>(owner, @selector(dispatchThreads:threadsPerThreadgroup:), on, Kind::STEP);
  again<void, MTLSize, MTLSize>(owner, @selector(dispatchThreadgroups:threadsPerThreadgroup:), on, Kind::STEP);
  again<void, id, NSRange>(owner, @selector(executeCommandsInBuffer:withRange:), on, Kind::STEP);
  again(owner, @selector(endEncoding), on);
}

void hook_blit(Class owner) {
  const auto on = &Open::blit;
  const auto copy = @selector(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:);
  again<void, id, NSUInteger, id, NSUInteger, NSUInteger>(owner, copy, on, Kind::STEP);
  again<void, id, NSRange, uint8_t>(owner, @selector(fillBuffer:range:value:), on, Kind::STEP);
  again(owner, @selector(endEncoding), on);
}

void hook_command_buffers(Class outer, Class inner) {
  const auto on = &Open::commands;
  const auto with_type = @selector(computeCommandEncoderWithDispatchType:);
  again<id>(outer, @selector(computeCommandEncoder), on, Kind::OTHER, &Open::compute);
  again<id>(outer, @selector(blitCommandEncoder), on, Kind::OTHER, &Open::blit);
  again<id, NSUInteger>(outer, with_type, on, Kind::OTHER, &Open::compute);
  again(outer, @selector(commitAndContinue), on, Kind::COMMIT);
  replace<Hook<void, id>>(inner, @selector(addCompletedHandler:), Kind::OTHER, [](id, id) -> Make {
    return [](Open& open) {
      [[open.commands commandBuffer] addCompletedHandler:^(id<MTLCommandBuffer>){
      }];
    };
  });
}

void hook_others(Class device_class) {
  again<id, NSUInteger, NSUInteger>(device_class, @selector(newBufferWithLength:options:), &Open::device);
  const auto encode = @selector(encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:);
  replace<Hook<id, id, id, id, id>>(
      MPSGraphExecutable.class, encode, Kind::STEP, [](id self, id, id inputs, id results, id descriptor) -> Make {
        return [self = Kept(self), in = Kept(inputs), out = Kept(results), how = Kept(descriptor)](Open& open) {
          @autoreleasepool {
            [(MPSGraphExecutable*)(id)self encodeToCommandBuffer:open.commands
                                                     inputsArray:in
                                                    resultsArray:out
                                             executionDescriptor:how];
          }
        };
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
  for (const auto& restore : restores) {
    restore();
  }
  restores.clear();
  return std::move(recording);
}

/// Makes the calls once, as they were recorded.
void run(const Recording& replay) {
  @autoreleasepool {
    if (!current) {
      current = [[MPSCommandBuffer commandBufferFromCommandQueue:queue()] retain];
    }
    Open open{current};
    for (const auto& [kind, make] : replay.calls) {
      make(open);
    }
  }
}

/// How many steps (dispatches, graph runs, copies and fills) are encoded before the first commit.
size_t steps_before_commit(const Recording& replay) {
  size_t steps = 0;
  for (const auto& [kind, make] : replay.calls) {
    if (kind == Kind::COMMIT) {
      break;
    }
    steps += kind == Kind::STEP;
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
