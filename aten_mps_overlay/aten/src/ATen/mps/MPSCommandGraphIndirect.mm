#include <ATen/mps/MPSCommandGraphDispatches.h>
#include <ATen/mps/MPSCommandGraphIndirect.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

namespace at::mps {

namespace {

struct Known {
  MPSRetained<id<MTLFunction>> function;
  // filled in when it is first asked for
  std::optional<MPSRetained<id<MTLComputePipelineState>>> indirect;
};

std::mutex known_mutex;
std::unordered_map<const void*, Known>& knownPipelines() {
  // never destroyed: libraries of kernels may be destroyed later
  static auto* known = new std::unordered_map<const void*, Known>();
  return *known;
}

// Nil if the function is not known, or can't be in an indirect command buffer.
MPSRetained<id<MTLComputePipelineState>> indirectPipeline(id<MTLComputePipelineState> pipeline) {
  std::lock_guard<std::mutex> lock(known_mutex);
  const auto position = knownPipelines().find(pipeline);
  if (position == knownPipelines().end()) {
    return nil;
  }
  auto& known = position->second;
  if (!known.indirect) {
    MTLComputePipelineDescriptor* descriptor = [[MTLComputePipelineDescriptor new] autorelease];
    descriptor.computeFunction = known.function.get();
    descriptor.supportIndirectCommandBuffers = YES;
    known.indirect = [[pipeline.device newComputePipelineStateWithDescriptor:descriptor
                                                                     options:MTLPipelineOptionNone
                                                                  reflection:nil
                                                                       error:nil] autorelease];
  }
  return *known.indirect;
}

// Keeps what it names by `used`.
struct Command {
  id<MTLComputePipelineState> pipeline = nil;
  std::map<NSUInteger, std::pair<id<MTLBuffer>, NSUInteger>> arguments;
  bool counts_threads = true;
  MTLSize sizes[2];
};

// The commands in order, and what the encoder must know to execute them.
struct Commands {
  id<MTLIndirectCommandBuffer> buffer = nil;
  size_t count = 0;
  std::vector<id<MTLResource>> resources;
  // The first command of each pipeline, if the GPU needs to be shown the pipelines.
  std::vector<Command> first_uses;

  size_t calls() const {
    size_t calls = 2;
    for (const auto& command : first_uses) {
      calls += 2 + command.arguments.size();
    }
    return calls;
  }
};

} // namespace

void noteFunction(id<MTLComputePipelineState> pipeline, id<MTLFunction> function) {
  std::lock_guard<std::mutex> lock(known_mutex);
  knownPipelines()[pipeline].function = function;
}

void forgetFunction(id<MTLComputePipelineState> pipeline) {
  std::lock_guard<std::mutex> lock(known_mutex);
  knownPipelines().erase(pipeline);
}

// All bytes that setBytes: was given, each content once, in one buffer; nil if there are none or no memory.
static id<MTLBuffer> constantsOf(const MPSKernelStep& kernels,
                                 id<MTLDevice> device,
                                 std::map<const void*, size_t>& places) {
  // GPUs of Intel's Macs need this; those of Apple need 4 (Metal feature set tables).
  constexpr size_t alignment = 256;
  std::map<std::string, size_t> contents;
  size_t length = 0;
  for (const auto& call : kernels.calls) {
    if (call.kind == MPSEncoderCall::Kind::SET_BYTES) {
      const auto* bytes = kernels.at<char>(call);
      const auto [content, is_new] = contents.try_emplace(std::string(bytes, call.count), length);
      places[bytes] = content->second;
      length += is_new ? (call.count + alignment - 1) / alignment * alignment : 0;
    }
  }
  id<MTLBuffer> buffer =
      length > 0 ? [[device newBufferWithLength:length options:MTLResourceStorageModeShared] autorelease] : nil;
  for (const auto& [content, place] : contents) {
    if (buffer) {
      std::memcpy(static_cast<char*>([buffer contents]) + place, content.data(), content.size());
    }
  }
  return buffer;
}

// The dispatches of the step; none if a command can't hold one of them. Adds the resources that the kernels reach
// through others.
static std::vector<Command> commandsOf(const MPSKernelStep& kernels,
                                       id<MTLBuffer> constants,
                                       const std::map<const void*, size_t>& places,
                                       std::set<id>& resources) {
  std::vector<Command> commands;
  MPSEncoderState state(kernels);
  for (const auto& call : kernels.calls) {
    state.apply(call);
    if (!call.isWork()) {
      continue;
    }
    Command command;
    command.counts_threads = call.kind == MPSEncoderCall::Kind::DISPATCH_THREADS;
    const bool is_plain = command.counts_threads || call.kind == MPSEncoderCall::Kind::DISPATCH_THREADGROUPS;
    if (!is_plain || !state.threadgroup_memory.empty()) {
      return {};
    }
    command.pipeline = indirectPipeline(state.pipeline).get();
    std::memcpy(command.sizes, kernels.at<MTLSize>(call), sizeof(command.sizes));
    if (!command.pipeline || command.sizes[0].width * command.sizes[0].height * command.sizes[0].depth == 0) {
      return {};
    }
    for (const auto& [index, argument] : state.arguments) {
      if (argument.buffer) {
        command.arguments[index] = {argument.buffer, argument.offset};
      } else if (argument.bytes && argument.length > 0 && constants) {
        command.arguments[index] = {constants, places.at(argument.bytes)};
      } else {
        return {};
      }
      resources.insert(command.arguments[index].first);
    }
    for (const auto& [resource, usage] : state.new_resources) {
      resources.insert(resource);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

static void fill(id<MTLIndirectCommandBuffer> buffer, const std::vector<Command>& commands) {
  for (const auto i : c10::irange(commands.size())) {
    const auto& command = commands[i];
    id<MTLIndirectComputeCommand> made = [buffer indirectComputeCommandAtIndex:i];
    [made setComputePipelineState:command.pipeline];
    for (const auto& [index, argument] : command.arguments) {
      [made setKernelBuffer:argument.first offset:argument.second atIndex:index];
    }
    if (command.counts_threads) {
      [made concurrentDispatchThreads:command.sizes[0] threadsPerThreadgroup:command.sizes[1]];
    } else {
      [made concurrentDispatchThreadgroups:command.sizes[0] threadsPerThreadgroup:command.sizes[1]];
    }
    if (i > 0) {
      [made setBarrier]; // The encoder of the capture is serial, too.
    }
  }
}

static void encode(const Commands& commands, id<MTLCommandBuffer> command_buffer) {
  id<MTLComputeCommandEncoder> encoder = [command_buffer computeCommandEncoder];
  [encoder useResources:commands.resources.data()
                  count:commands.resources.size()
                  usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  for (const auto& command : commands.first_uses) {
    [encoder setComputePipelineState:command.pipeline];
    for (const auto& [index, argument] : command.arguments) {
      [encoder setBuffer:argument.first offset:argument.second atIndex:index];
    }
    [encoder dispatchThreadgroups:MTLSizeMake(0, 0, 0) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  }
  [encoder executeCommandsInBuffer:commands.buffer withRange:NSMakeRange(0, commands.count)];
  [encoder endEncoding];
}

std::optional<MPSEncodeStep> withIndirectCommands(const MPSKernelStep& kernels,
                                                  id<MTLDevice> device,
                                                  NSMutableArray* used) {
  // Metal executes no more by one call, and fewer can't be worth a command buffer.
  constexpr size_t most = 16384;
  constexpr size_t fewest = 4;
  std::map<const void*, size_t> places;
  id<MTLBuffer> constants = constantsOf(kernels, device, places);
  std::set<id> resources;
  const auto commands = commandsOf(kernels, constants, places, resources);
  auto made = std::make_shared<Commands>();
  made->count = commands.size();
  made->resources.assign(resources.begin(), resources.end());
  std::set<id> pipelines;
  NSUInteger slots = 1;
  // GPUs before Apple's ninth family are reported not to load the pipelines of commands by themselves.
  constexpr auto ninth_family = static_cast<MTLGPUFamily>(1009);
  const bool loads_pipelines = [device supportsFamily:ninth_family];
  for (const auto& command : commands) {
    if (pipelines.insert(command.pipeline).second && !loads_pipelines) {
      made->first_uses.push_back(command);
    }
    slots = command.arguments.empty() ? slots : std::max(slots, command.arguments.rbegin()->first + 1);
  }
  if (commands.size() < fewest || commands.size() > most || made->calls() >= kernels.calls.size()) {
    return std::nullopt;
  }
  MTLIndirectCommandBufferDescriptor* descriptor = [[MTLIndirectCommandBufferDescriptor new] autorelease];
  descriptor.commandTypes = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  descriptor.inheritPipelineState = NO;
  descriptor.inheritBuffers = NO;
  descriptor.maxKernelBufferBindCount = slots;
  made->buffer = [[device newIndirectCommandBufferWithDescriptor:descriptor
                                                 maxCommandCount:commands.size()
                                                         options:MTLResourceStorageModeShared] autorelease];
  if (!made->buffer) {
    return std::nullopt;
  }
  fill(made->buffer, commands);
  [used addObject:made->buffer];
  for (id object : pipelines) {
    [used addObject:object];
  }
  for (id object : resources) {
    [used addObject:object];
  }
  return MPSEncodeStep{[[^(id<MTLCommandBuffer> command_buffer) {
    encode(*made, command_buffer);
  } copy] autorelease]};
}

} // namespace at::mps
