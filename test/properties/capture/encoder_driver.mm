// Makes encoder calls on the stream, as an array of integers says, for the
// property tests next to this file; see encoder_calls.py for the array.

#include <ATen/mps/MPSKernelObjects.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <objc/message.h>
#include <objc/runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

using at::mps::getCurrentMPSStream;
using at::mps::MPSStream;

namespace {

std::string last_error;
std::vector<id<MTLComputePipelineState>> pipelines;

// What the logging encoders saw, a line a call, and the names they use.
std::atomic<bool> logging{false};
std::string call_log;
std::unordered_map<const void*, size_t> buffer_names;

template <typename... Numbers>
void log_call(const char* name, Numbers... numbers) {
  call_log += name;
  ((call_log += " " + std::to_string(numbers)), ...);
  call_log += "\n";
}

int64_t buffer_name(id<MTLBuffer> buffer) {
  if (!buffer) {
    return -1;
  }
  const auto found = buffer_names.find((const void*)buffer);
  return found == buffer_names.end() ? -2 : static_cast<int64_t>(found->second);
}

int64_t pipeline_name(id<MTLComputePipelineState> pipeline) {
  const auto found = std::find(pipelines.begin(), pipelines.end(), pipeline);
  return found == pipelines.end() ? -2 : found - pipelines.begin();
}

size_t hash_bytes(const void* bytes, size_t length) {
  return std::hash<std::string_view>()({static_cast<const char*>(bytes), length});
}

} // namespace

// Takes the place of the device's compute encoder and writes down each call.
@interface EncoderCallLog : NSObject {
  // by index: the graph's own buffer of bytes, which the test has not made
  std::unordered_map<NSUInteger, id<MTLBuffer>> _constants;
}
@end

@implementation EncoderCallLog

// Bytes that lie in a buffer of the graph are what they are elsewhere; they say their length (make_bytes).
- (void)log:(const char*)name buffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  const auto number = buffer_name(buffer);
  if (number != -2) {
    _constants.erase(index);
    log_call(name, index, number, offset);
    return;
  }
  _constants[index] = buffer;
  const auto* bytes = static_cast<const uint8_t*>([buffer contents]) + offset;
  const size_t length = bytes[0] | bytes[1] << 8;
  log_call("bytes", index, length, hash_bytes(bytes, length));
}

- (instancetype)init {
  if ((self = [super init])) {
    log_call("encoder");
  }
  return self;
}

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  log_call("pipeline", pipeline_name(state));
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [self log:"buffer" buffer:buffer offset:offset atIndex:index];
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  const auto constants = _constants.find(index);
  if (constants != _constants.end()) {
    [self log:"buffer" buffer:constants->second offset:offset atIndex:index];
  } else {
    log_call("buffer_offset", index, offset);
  }
}

- (void)setBuffers:(const id<MTLBuffer>*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range {
  for (NSUInteger i = 0; i < range.length; ++i) {
    [self log:"buffer_of_range" buffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
  }
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  _constants.erase(index);
  log_call("bytes", index, length, hash_bytes(bytes, length));
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  log_call("threadgroup_memory", index, length);
}

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  log_call("use", buffer_name((id<MTLBuffer>)resource), usage);
}

- (void)useResources:(const id<MTLResource>*)resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  for (NSUInteger i = 0; i < count; ++i) {
    log_call("use", buffer_name((id<MTLBuffer>)resources[i]), usage);
  }
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  log_call("barrier", scope);
}

- (void)memoryBarrierWithResources:(const id<MTLResource>*)resources count:(NSUInteger)count {
  log_call("barrier_resources", count);
}

- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group {
  log_call("threads", threads.width, threads.height, threads.depth, group.width, group.height, group.depth);
}

- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group {
  log_call("threadgroups", groups.width, groups.height, groups.depth, group.width, group.height, group.depth);
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)group {
  log_call("indirect", buffer_name(buffer), offset, group.width, group.height, group.depth);
}

- (void)pushDebugGroup:(NSString*)name {
  log_call("push_group");
}

- (void)popDebugGroup {
  log_call("pop_group");
}

- (void)insertDebugSignpost:(NSString*)name {
  log_call("signpost");
}

- (void)setLabel:(NSString*)label {
  log_call("label");
}

- (void)endEncoding {
  log_call("end");
}

@end

@interface BlitCallLog : NSObject
@end

@implementation BlitCallLog

- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  log_call("copy", buffer_name(source), sourceOffset, buffer_name(destination), destinationOffset, size);
}

- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  log_call("fill", buffer_name(buffer), range.location, range.length, int(value));
}

- (void)endEncoding {
}

@end

namespace {

using Getter = id (*)(id, SEL);
Getter device_compute_encoder = nullptr;
Getter device_blit_encoder = nullptr;

id compute_encoder(id self, SEL selector) {
  return logging ? [[[EncoderCallLog alloc] init] autorelease] : device_compute_encoder(self, selector);
}

id blit_encoder(id self, SEL selector) {
  return logging ? [[[BlitCallLog alloc] init] autorelease] : device_blit_encoder(self, selector);
}

// Answers to any selector that a test sends to see it refused.
void unrecorded_method(id self, SEL selector) {
  call_log += std::string("sent ") + sel_getName(selector) + "\n";
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

int guarded(const std::function<void()>& action) {
  try {
    @autoreleasepool {
      action();
    }
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

// The numbers of one call of the array, and the buffers that some of these name.
struct Call {
  std::vector<int64_t> numbers;
  std::vector<void*> buffers;

  int64_t operator[](size_t i) const {
    return numbers.at(i);
  }
  MTLSize size(size_t first) const {
    return MTLSizeMake(numbers.at(first), numbers.at(first + 1), numbers.at(first + 2));
  }
  id<MTLBuffer> buffer(size_t i) const {
    return numbers.at(i) < 0 ? nil : (__bridge id<MTLBuffer>)buffers.at(numbers[i]);
  }
  std::vector<id> several(size_t first, size_t step = 1) const {
    std::vector<id> result;
    for (size_t i = first; i < numbers.size(); i += step) {
      result.push_back(buffer(i));
    }
    return result;
  }
};

// What a call binds by setBytes: its length, and noise.
std::vector<uint8_t> make_bytes(size_t length, uint64_t seed) {
  std::vector<uint8_t> bytes(length);
  for (auto& byte : bytes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(seed >> 56);
  }
  bytes[0] = static_cast<uint8_t>(length & 255);
  bytes[1] = static_cast<uint8_t>(length >> 8);
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

} // namespace

extern "C" {

#define EXPORTED __attribute__((visibility("default")))

/// The message of the call that returned nonzero last.
EXPORTED const char* encoder_driver_error() {
  return last_error.c_str();
}

/// Makes the pipelines. What they compute does not matter: the tests look at the calls.
EXPORTED int encoder_driver_make_pipelines() {
  return guarded([] {
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
  });
}

/// Makes the calls of an array: code, number of numbers, numbers, and so on.
EXPORTED int encoder_driver_run(
    const int64_t* calls, size_t length, void* const* buffers, size_t buffer_count) {
  return guarded([&] {
    auto* stream = getCurrentMPSStream();
    for (size_t i = 0; i < length;) {
      const auto* numbers = calls + i + 2;
      const auto* end = numbers + calls[i + 1];
      performs.at(calls[i])(stream, {{numbers, end}, {buffers, buffers + buffer_count}});
      i = end - calls;
    }
  });
}

/// From here on nothing reaches the device: compute and blit encoders log.
EXPORTED int encoder_driver_start_log(void* const* buffers, size_t buffer_count) {
  return guarded([&] {
    on_queue([&](MPSStream* stream) {
      stream->endKernelCoalescing();
      if (!device_compute_encoder) {
        Class commands = object_getClass((id)stream->commandBuffer());
        device_compute_encoder = replace_getter(commands, @selector(computeCommandEncoder), compute_encoder);
        device_blit_encoder = replace_getter(commands, @selector(blitCommandEncoder), blit_encoder);
      }
      buffer_names.clear();
      for (size_t i = 0; i < buffer_count; ++i) {
        buffer_names.emplace(buffers[i], i);
      }
      call_log.clear();
      logging = true;
    });
  });
}

/// Ends the log and returns it. Valid until the next one starts.
EXPORTED const char* encoder_driver_stop_log() {
  const int failed = guarded([] {
    on_queue([](MPSStream* stream) {
      stream->endKernelCoalescing();
      logging = false;
    });
  });
  return failed ? nullptr : call_log.c_str();
}

/// Sends a message without arguments to the stream's encoder, which must be a
/// logging one: that answers to every selector.
EXPORTED int encoder_driver_send(const char* name) {
  return guarded([&] {
    if (!logging) {
      throw std::runtime_error("encoder driver: messages are for the logging encoder");
    }
    SEL selector = sel_registerName(name);
    class_addMethod([EncoderCallLog class], selector, reinterpret_cast<IMP>(unrecorded_method), "v@:");
    on_queue([&](MPSStream* stream) { send((id)stream->commandEncoder(), selector); });
  });
}

/// Says whether the stream's encoder answers to a selector: 1, 0, or -1.
EXPORTED int encoder_driver_responds(const char* name) {
  int responds = -1;
  guarded([&] {
    on_queue([&](MPSStream* stream) {
      responds = [(NSObject*)stream->commandEncoder() respondsToSelector:sel_registerName(name)] ? 1 : 0;
    });
  });
  return responds;
}

/// Commits the command buffer and goes on in the next one, as an MPSGraph may, in each replay too.
EXPORTED void encoder_driver_commit_and_continue() {
  on_queue([](MPSStream* stream) {
    stream->endKernelCoalescing();
    at::mps::encodeAndRecord(stream, ^(id<MTLCommandBuffer> command_buffer) {
      [(MPSCommandBuffer*)command_buffer commitAndContinue];
    });
  });
}

} // extern "C"
