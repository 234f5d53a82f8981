// Makes encoder calls on the stream, as lists of numbers say, and logs them, for the
// property tests next to this file; see encoder_calls.py for the numbers.

#include <ATen/mps/MPSCommandGraphKernelObjects.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <objc/message.h>
#include <objc/runtime.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using at::mps::getCurrentMPSStream;
using at::mps::MPSStream;

namespace {

std::vector<id> buffers;
std::vector<id> pipelines;

// What the logging encoders saw, a line a call.
std::atomic<bool> logging{false};
std::string call_log;

// What the log calls an object: its place among those of the test, -1 for none, -2 for one that the test has not made.
int64_t name_among(const std::vector<id>& objects, id object) {
  const auto found = std::find(objects.begin(), objects.end(), object);
  return !object ? -1 : found == objects.end() ? -2 : found - objects.begin();
}

std::string numbers_of(int64_t number) {
  return " " + std::to_string(number);
}
std::string numbers_of(id<MTLBuffer> buffer) {
  return numbers_of(name_among(buffers, buffer));
}
std::string numbers_of(id<MTLComputePipelineState> pipeline) {
  return numbers_of(name_among(pipelines, pipeline));
}
std::string numbers_of(MTLSize size) {
  return numbers_of(size.width) + numbers_of(size.height) + numbers_of(size.depth);
}
std::string numbers_of(NSRange range) {
  return numbers_of(range.location) + numbers_of(range.length);
}
std::string numbers_of(NSString*) {
  return "";
}

template <typename... Arguments>
void log_call(const std::string& name, Arguments... arguments) {
  call_log += (name + ... + numbers_of(arguments)) + "\n";
}

int64_t hash_bytes(const void* bytes, size_t length) {
  return std::hash<std::string_view>()({static_cast<const char*>(bytes), length});
}

} // namespace

// Takes the place of the device's encoders and writes down each call.
@interface CallLog : NSObject
@end

@implementation CallLog

- (void)setBuffers:(const id<MTLBuffer>*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range {
  for (NSUInteger i = 0; i < range.length; ++i) {
    log_call("buffer_of_range", range.location + i, buffers[i], offsets[i]);
  }
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  log_call("bytes", index, length, hash_bytes(bytes, length));
}

- (void)useResources:(const id<MTLBuffer>*)resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  for (NSUInteger i = 0; i < count; ++i) {
    log_call("use", resources[i], usage);
  }
}

- (void)memoryBarrierWithResources:(const id<MTLResource>*)resources count:(NSUInteger)count {
  log_call("barrier_resources", count);
}

@end

namespace {

// The other calls, of which all arguments are logged, by selector: as what.
std::map<std::string, std::string> log_names;

template <typename... Arguments>
void logged(id self, SEL selector, Arguments... arguments) {
  log_call(log_names.at(sel_getName(selector)), arguments...);
}

template <typename... Arguments>
void log_as(const std::string& name, SEL selector) {
  log_names[sel_getName(selector)] = name;
  class_addMethod([CallLog class], selector, reinterpret_cast<IMP>(logged<Arguments...>), "v@:");
}

void add_logged_methods() {
  using Buffer = id<MTLBuffer>;
  log_as<id<MTLComputePipelineState>>("pipeline", @selector(setComputePipelineState:));
  log_as<NSUInteger, NSUInteger>("threadgroup_memory", @selector(setThreadgroupMemoryLength:atIndex:));
  log_as<NSUInteger, NSUInteger>("buffer_offset", @selector(setBufferOffset:atIndex:));
  log_as<Buffer, NSUInteger, NSUInteger>("buffer", @selector(setBuffer:offset:atIndex:));
  log_as<Buffer, MTLResourceUsage>("use", @selector(useResource:usage:));
  log_as<MTLBarrierScope>("barrier", @selector(memoryBarrierWithScope:));
  log_as<MTLSize, MTLSize>("threads", @selector(dispatchThreads:threadsPerThreadgroup:));
  log_as<MTLSize, MTLSize>("threadgroups", @selector(dispatchThreadgroups:threadsPerThreadgroup:));
  log_as<Buffer, NSUInteger, MTLSize>(
      "indirect", @selector(dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:));
  log_as<NSString*>("push_group", @selector(pushDebugGroup:));
  log_as<>("pop_group", @selector(popDebugGroup));
  log_as<NSString*>("signpost", @selector(insertDebugSignpost:));
  log_as<NSString*>("label", @selector(setLabel:));
  log_as<>("end", @selector(endEncoding));
  log_as<Buffer, NSUInteger, Buffer, NSUInteger, NSUInteger>(
      "copy", @selector(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:));
  log_as<Buffer, NSRange, uint8_t>("fill", @selector(fillBuffer:range:value:));
}

using Getter = id (*)(id, SEL);
Getter device_compute_encoder = nullptr;
Getter device_blit_encoder = nullptr;

id compute_encoder(id self, SEL selector) {
  if (!logging) {
    return device_compute_encoder(self, selector);
  }
  log_call("encoder");
  return [[[CallLog alloc] init] autorelease];
}

id blit_encoder(id self, SEL selector) {
  return logging ? [[[CallLog alloc] init] autorelease] : device_blit_encoder(self, selector);
}

Getter replace_getter(Class commands, SEL selector, Getter replacement) {
  const auto before = reinterpret_cast<Getter>(class_getMethodImplementation(commands, selector));
  class_replaceMethod(commands, selector, reinterpret_cast<IMP>(replacement), "@@:");
  return before;
}

void send(id receiver, SEL selector) {
#ifdef __APPLE__
  reinterpret_cast<void (*)(id, SEL)>(objc_msgSend)(receiver, selector);
#else
  reinterpret_cast<void (*)(id, SEL)>(objc_msg_lookup(receiver, selector))(receiver, selector);
#endif
}

void on_queue(const std::function<void(MPSStream*)>& action) {
  auto* stream = getCurrentMPSStream();
  const auto* action_address = &action; // a block would copy the function
  at::native::mps::dispatch_sync_with_rethrow(stream->queue(), ^{
    @autoreleasepool {
      (*action_address)(stream);
    }
  });
}

// The numbers of one call, some of which name buffers.
struct Call {
  std::vector<int64_t> numbers;

  int64_t operator[](size_t i) const {
    return numbers.at(i);
  }
  MTLSize size(size_t first) const {
    return MTLSizeMake(numbers.at(first), numbers.at(first + 1), numbers.at(first + 2));
  }
  id<MTLBuffer> buffer(size_t i) const {
    return numbers.at(i) < 0 ? nil : buffers.at(numbers[i]);
  }
  std::vector<id> several(size_t first, size_t step = 1) const {
    std::vector<id> result;
    for (size_t i = first; i < numbers.size(); i += step) {
      result.push_back(buffer(i));
    }
    return result;
  }
};

// What a call binds by setBytes: noise.
std::vector<uint8_t> make_bytes(size_t length, uint64_t seed) {
  std::vector<uint8_t> bytes(length);
  for (auto& byte : bytes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(seed >> 56);
  }
  return bytes;
}

using Encoder = id<MTLComputeCommandEncoder>;

void set_buffers(Encoder encoder, const Call& call) {
  const auto buffers = call.several(1, 2);
  std::vector<NSUInteger> offsets;
  for (size_t i = 2; i < call.numbers.size(); i += 2) {
    offsets.push_back(call[i]);
  }
  [encoder setBuffers:buffers.data() offsets:offsets.data() withRange:NSMakeRange(call[0], buffers.size())];
}

void set_bytes(Encoder encoder, const Call& call) {
  auto bytes = make_bytes(call[1], call[2]);
  [encoder setBytes:bytes.data() length:call[1] atIndex:call[0]];
  // the caller's memory is its own again, and anything may happen to it
  std::fill(bytes.begin(), bytes.end(), 0xEE);
}

void use_resources(Encoder encoder, const Call& call) {
  const auto resources = call.several(1);
  [encoder useResources:resources.data() count:resources.size() usage:static_cast<MTLResourceUsage>(call[0])];
}

void wait_for_resources(Encoder encoder, const Call& call) {
  const auto resources = call.several(1);
  [encoder memoryBarrierWithResources:resources.data() count:resources.size()];
}

void dispatch_indirectly(Encoder encoder, const Call& call) {
  [encoder dispatchThreadgroupsWithIndirectBuffer:call.buffer(0)
                             indirectBufferOffset:call[1]
                            threadsPerThreadgroup:call.size(2)];
}

using Perform = std::function<void(MPSStream*, const Call&)>;

// A call of the stream's encoder.
Perform encode(void (*made)(Encoder, const Call&)) {
  return [made](MPSStream*, const Call& call) {
    on_queue([&](MPSStream* stream) { made(stream->commandEncoder(), call); });
  };
}

// The stream takes the queue itself for these two.
void copy(MPSStream* stream, const Call& call) {
  stream->copy(call.buffer(0), call.buffer(2), call[4], call[1], call[3], 0, at::mps::SyncType::NONE);
}

void fill(MPSStream* stream, const Call& call) {
  stream->fill(call.buffer(0), static_cast<uint8_t>(call[3]), call[2], call[1], at::mps::SyncType::NONE);
}

void end_encoder(MPSStream*, const Call&) {
  on_queue([](MPSStream* stream) { stream->endKernelCoalescing(); });
}

void commit(MPSStream*, const Call&) {
  on_queue([](MPSStream* stream) { stream->synchronize(at::mps::SyncType::COMMIT); });
}

// By code: in the order of encoder_calls.py.
const std::vector<Perform> performs = {
    encode([](Encoder encoder, const Call& call) { [encoder setComputePipelineState:pipelines.at(call[0])]; }),
    encode([](Encoder encoder, const Call& call) { [encoder setBuffer:call.buffer(1) offset:call[2] atIndex:call[0]]; }),
    encode([](Encoder encoder, const Call& call) { [encoder setBufferOffset:call[1] atIndex:call[0]]; }),
    encode(set_buffers),
    encode(set_bytes),
    encode([](Encoder encoder, const Call& call) { [encoder setThreadgroupMemoryLength:call[1] atIndex:call[0]]; }),
    encode([](Encoder encoder, const Call& call) {
      [encoder useResource:call.buffer(0) usage:static_cast<MTLResourceUsage>(call[1])];
    }),
    encode(use_resources),
    encode([](Encoder encoder, const Call& call) {
      [encoder memoryBarrierWithScope:static_cast<MTLBarrierScope>(call[0])];
    }),
    encode(wait_for_resources),
    encode([](Encoder encoder, const Call& call) {
      [encoder dispatchThreads:call.size(0) threadsPerThreadgroup:call.size(3)];
    }),
    encode([](Encoder encoder, const Call& call) {
      [encoder dispatchThreadgroups:call.size(0) threadsPerThreadgroup:call.size(3)];
    }),
    encode(dispatch_indirectly),
    end_encoder,
    copy,
    fill,
    encode([](Encoder encoder, const Call&) { [encoder pushDebugGroup:@"group"]; }),
    encode([](Encoder encoder, const Call&) { [encoder popDebugGroup]; }),
    encode([](Encoder encoder, const Call&) { [encoder insertDebugSignpost:@"signpost"]; }),
    encode([](Encoder encoder, const Call&) { [encoder setLabel:@"label"]; }),
    commit,
};

/// Takes the buffers, and makes the pipelines. What they compute does not matter: the tests look at the calls.
void begin(const std::vector<uintptr_t>& addresses) {
  for (const auto address : addresses) {
    buffers.push_back((__bridge id)reinterpret_cast<void*>(address));
  }
  id<MTLDevice> device = getCurrentMPSStream()->device();
  NSError* error = nil;
  NSString* source = @"kernel void a(device int* x) {} kernel void b(device int* x) {} kernel void c(device int* x) {}";
  id<MTLLibrary> library = [[device newLibraryWithSource:source options:nil error:&error] autorelease];
  for (NSString* name : {@"a", @"b", @"c"}) {
    id<MTLFunction> function = [[library newFunctionWithName:name] autorelease];
    pipelines.push_back(function ? [device newComputePipelineStateWithFunction:function error:&error] : nil);
    if (!pipelines.back()) {
      throw std::runtime_error("encoder driver: a kernel does not compile");
    }
  }
}

/// Makes calls, each a code and its numbers, on the stream's encoder.
void run(const std::vector<std::vector<int64_t>>& calls) {
  for (const auto& call : calls) {
    performs.at(call.at(0))(getCurrentMPSStream(), {{call.begin() + 1, call.end()}});
  }
}

/// From here on nothing reaches the device: compute and blit encoders log.
void start_log() {
  on_queue([](MPSStream* stream) {
    stream->endKernelCoalescing();
    if (!device_compute_encoder) {
      add_logged_methods();
      Class commands = object_getClass((id)stream->commandBuffer());
      device_compute_encoder = replace_getter(commands, @selector(computeCommandEncoder), compute_encoder);
      device_blit_encoder = replace_getter(commands, @selector(blitCommandEncoder), blit_encoder);
    }
    call_log.clear();
    logging = true;
  });
}

/// Ends the log and returns it.
std::string stop_log() {
  on_queue([](MPSStream* stream) {
    stream->endKernelCoalescing();
    logging = false;
  });
  return call_log;
}

/// Sends a message without arguments to the stream's encoder, a logging one, which answers to every selector.
void send_to_encoder(const std::string& name) {
  if (!logging) {
    throw std::runtime_error("encoder driver: messages are for the logging encoder");
  }
  SEL selector = sel_registerName(name.c_str());
  log_as<>("sent " + name, selector);
  on_queue([&](MPSStream* stream) { send((id)stream->commandEncoder(), selector); });
}

/// What the stream's encoder answers to respondsToSelector:.
bool responds(const std::string& name) {
  bool responds = false;
  on_queue([&](MPSStream* stream) {
    responds = [(NSObject*)stream->commandEncoder() respondsToSelector:sel_registerName(name.c_str())];
  });
  return responds;
}

/// Commits the command buffer and goes on in the next one, as an MPSGraph may, in each replay too.
void commit_and_continue() {
  on_queue([](MPSStream* stream) {
    stream->endKernelCoalescing();
    at::mps::encodeAndRecord(stream, ^(id<MTLCommandBuffer> command_buffer) {
      [(MPSCommandBuffer*)command_buffer commitAndContinue];
    });
  });
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  const auto define = [&](const char* name, auto function) {
    module.def(name, function, pybind11::call_guard<pybind11::gil_scoped_release>());
  };
  define("begin", begin);
  define("run", run);
  define("start_log", start_log);
  define("stop_log", stop_log);
  define("send", send_to_encoder);
  define("responds", responds);
  define("commit_and_continue", commit_and_continue);
}
