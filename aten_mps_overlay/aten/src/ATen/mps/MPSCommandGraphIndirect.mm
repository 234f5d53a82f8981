#include <ATen/mps/MPSCommandGraphIndirect.h>
#include <ATen/mps/MPSCommandGraphPipelines.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

namespace at::mps {

using Kind = MPSEncoderCall::Kind;

// Returns whether the command waits for those before it.
bool MPSIndirectCommands::mustWait(const std::vector<Access>& accesses, bool is_unknown) {
  // Looking through all of them must stay cheap.
  constexpr size_t most = 1024;
  const auto conflicts = [&](const Access& access) {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& earlier) {
      return (access.writes || earlier.writes) && access.buffer == earlier.buffer;
    });
  };
  const bool waits = has_unknown_ || accesses_.size() >= most || (is_unknown && !accesses_.empty()) ||
      std::any_of(accesses.begin(), accesses.end(), conflicts);
  if (waits) {
    accesses_.clear();
  }
  has_unknown_ = is_unknown;
  accesses_.insert(accesses_.end(), accesses.begin(), accesses.end());
  return waits;
}

bool MPSIndirectCommands::add(const MPSKernelStep& kernels,
                              const MPSEncoderCall& dispatch,
                              const MPSEncoderState& state,
                              id<MTLBuffer> constants,
                              const std::map<const void*, size_t>& places) {
  const bool is_plain = (dispatch.kind == Kind::DISPATCH_THREADS || dispatch.kind == Kind::DISPATCH_THREADGROUPS) &&
      state.threadgroup_memory.empty();
  Command command;
  command.pipeline = is_plain ? indirectPipeline(state.pipeline) : nil;
  if (!command.pipeline.get() || commands_.size() == kMost) {
    return false;
  }
  command.counts_threads = dispatch.kind == Kind::DISPATCH_THREADS;
  std::memcpy(command.sizes, kernels.at<MTLSize>(dispatch), sizeof(command.sizes));
  if (command.sizes[0].width == 0 || command.sizes[0].height == 0 || command.sizes[0].depth == 0) {
    return false;
  }
  const auto access = kernelAccess(state.pipeline);
  std::vector<Access> accesses;
  for (const auto& [index, argument] : state.arguments) {
    const uint64_t bit = uint64_t(1) << index;
    if (argument.buffer) {
      command.arguments[index] = {argument.buffer, argument.offset};
      if ((access.reads | access.writes) & bit) {
        // How far a kernel goes is not known.
        accesses.push_back({argument.buffer, (access.writes & bit) != 0});
      }
    } else if (argument.bytes && argument.length > 0 && constants) {
      command.arguments[index] = {constants, places.at(argument.bytes)};
    } else {
      return false;
    }
  }
  for (const auto& [resource, usage] : state.new_resources) {
    resources_.emplace_back(resource);
  }
  // What lies behind an argument buffer may be anywhere in a resource.
  command.waits = mustWait(accesses, state.has_resources) || state.has_barrier;
  commands_.push_back(std::move(command));
  return true;
}

// The first command of each pipeline, if the GPU needs to be shown the pipelines.
std::vector<const MPSIndirectCommands::Command*> MPSIndirectCommands::firstUses() const {
  std::vector<const Command*> first;
  std::set<id> seen;
  for (const auto& command : commands_) {
    if (uses_pipelines_first_ && seen.insert(command.pipeline.get()).second) {
      first.push_back(&command);
    }
  }
  return first;
}

size_t MPSIndirectCommands::calls() const {
  size_t calls = 2;
  for (const auto* command : firstUses()) {
    calls += 2 + command->arguments.size();
  }
  return calls;
}

bool MPSIndirectCommands::make(id<MTLDevice> device) {
  constexpr auto ninth_family = static_cast<MTLGPUFamily>(1009);
  uses_pipelines_first_ = ![device supportsFamily:ninth_family];
  NSUInteger slots = 1;
  std::set<id> seen;
  for (const auto& resource : resources_) {
    seen.insert(resource.get());
  }
  for (const auto& command : commands_) {
    for (const auto& [index, argument] : command.arguments) {
      slots = std::max(slots, index + 1);
      seen.insert(argument.first.get());
    }
  }
  resources_.assign(seen.begin(), seen.end());
  MTLIndirectCommandBufferDescriptor* descriptor = [[MTLIndirectCommandBufferDescriptor new] autorelease];
  descriptor.commandTypes = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  descriptor.inheritPipelineState = NO;
  descriptor.inheritBuffers = NO;
  descriptor.maxKernelBufferBindCount = slots;
  buffer_ = [[device newIndirectCommandBufferWithDescriptor:descriptor
                                            maxCommandCount:commands_.size()
                                                    options:MTLResourceStorageModeShared] autorelease];
  if (!buffer_.get()) {
    return false;
  }
  for (const auto i : c10::irange(commands_.size())) {
    const auto& command = commands_[i];
    id<MTLIndirectComputeCommand> made = [buffer_.get() indirectComputeCommandAtIndex:i];
    [made setComputePipelineState:command.pipeline.get()];
    for (const auto& [index, argument] : command.arguments) {
      [made setKernelBuffer:argument.first.get() offset:argument.second atIndex:index];
    }
    if (command.counts_threads) {
      [made concurrentDispatchThreads:command.sizes[0] threadsPerThreadgroup:command.sizes[1]];
    } else {
      [made concurrentDispatchThreadgroups:command.sizes[0] threadsPerThreadgroup:command.sizes[1]];
    }
    if (i > 0 && command.waits) {
      [made setBarrier];
    }
  }
  return true;
}

void MPSIndirectCommands::encode(id<MTLComputeCommandEncoder> encoder) const {
  std::vector<id<MTLResource>> resources;
  for (const auto& resource : resources_) {
    resources.push_back(resource.get());
  }
  [encoder useResources:resources.data() count:resources.size() usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  for (const auto* command : firstUses()) {
    [encoder setComputePipelineState:command->pipeline.get()];
    for (const auto& [index, argument] : command->arguments) {
      [encoder setBuffer:argument.first.get() offset:argument.second atIndex:index];
    }
    [encoder dispatchThreadgroups:MTLSizeMake(0, 0, 0) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  }
  [encoder executeCommandsInBuffer:buffer_.get() withRange:NSMakeRange(0, commands_.size())];
}

void MPSIndirectCommands::addUsedTo(NSMutableArray* objects) const {
  for (const auto& command : commands_) {
    [objects addObject:command.pipeline.get()];
  }
  for (const auto& resource : resources_) {
    [objects addObject:resource.get()];
  }
}

// All bytes that setBytes: was given, each content once, in one buffer; nil if there are none or no memory.
static id<MTLBuffer> newConstants(const MPSKernelStep& kernels,
                                  id<MTLDevice> device,
                                  std::map<const void*, size_t>& places) {
  // GPUs of Intel's Macs need this; those of Apple need 4 (Metal feature set tables).
  constexpr size_t alignment = 256;
  std::map<std::string, size_t> contents;
  size_t length = 0;
  for (const auto& call : kernels.calls) {
    if (call.kind == Kind::SET_BYTES) {
      const auto* bytes = kernels.at<char>(call);
      const auto [content, is_new] = contents.try_emplace(std::string(bytes, call.count), length);
      places[bytes] = content->second;
      length += is_new ? (call.count + alignment - 1) / alignment * alignment : 0;
    }
  }
  id<MTLBuffer> buffer = length > 0 ? [device newBufferWithLength:length options:MTLResourceStorageModeShared] : nil;
  for (const auto& [content, place] : contents) {
    if (buffer) {
      std::memcpy(static_cast<char*>([buffer contents]) + place, content.data(), content.size());
    }
  }
  return buffer;
}

// Adds calls that give the encoder the state again, which indirect commands have taken from it.
static void restore(MPSKernelStep& kernels, const MPSEncoderState& state) {
  const auto add = [&](Kind kind, NSUInteger index, id object, size_t value) -> MPSEncoderCall& {
    auto& call = kernels.calls.emplace_back();
    call.kind = kind;
    call.index = index;
    call.object = object;
    call.value = value;
    return call;
  };
  add(Kind::SET_PIPELINE, 0, state.pipeline, 0);
  for (const auto& [index, argument] : state.arguments) {
    if (argument.buffer) {
      add(Kind::SET_BUFFER, index, argument.buffer, argument.offset);
    } else if (argument.bytes) {
      const auto* data = static_cast<const uint64_t*>(argument.bytes);
      add(Kind::SET_BYTES, index, nil, data - state.data()).count = argument.length;
    } else if (argument.refreshed) {
      const auto position = std::find_if(kernels.refreshed.begin(),
                                         kernels.refreshed.end(),
                                         [&](const auto& refreshed) { return refreshed.get() == argument.refreshed; });
      add(Kind::SET_REFRESHED_BYTES, index, nil, position - kernels.refreshed.begin());
    }
  }
}

std::optional<MPSKernelStep> withIndirectCommands(const MPSKernelStep& kernels, id<MTLDevice> device) {
  std::map<const void*, size_t> places;
  const MPSRetained<id<MTLBuffer>> constants([newConstants(kernels, device, places) autorelease]);
  MPSKernelStep made;
  made.data = kernels.data;
  made.refreshed = kernels.refreshed;
  made.dispatches = kernels.dispatches;
  made.objects = kernels.objects;
  MPSEncoderState state(kernels);
  auto commands = std::make_shared<MPSIndirectCommands>();
  // the calls that the commands would replace: those since the last dispatch that they do not hold
  size_t first = 0;
  // the end of the last dispatch
  size_t last = 0;
  bool must_restore = false;
  // the state after the first `applied` calls
  MPSEncoderState before(kernels);
  size_t applied = 0;
  const auto flush = [&] {
    if (commands->count() >= MPSIndirectCommands::kFewest && commands->calls() < last - first &&
        commands->make(device)) {
      auto& call = made.calls.emplace_back();
      call.kind = Kind::EXECUTE;
      call.value = made.indirect.size();
      made.indirect.push_back(std::move(commands));
      must_restore = true;
    } else {
      if (std::exchange(must_restore, false) && last > first) {
        while (applied < first) {
          before.apply(kernels.calls[applied++]);
        }
        restore(made, before);
      }
      made.calls.insert(made.calls.end(), kernels.calls.begin() + first, kernels.calls.begin() + last);
    }
    commands = std::make_shared<MPSIndirectCommands>();
    first = last;
  };
  for (const auto i : c10::irange(kernels.calls.size())) {
    const auto& call = kernels.calls[i];
    state.apply(call);
    if (!call.isWork()) {
      continue;
    }
    if (!commands->add(kernels, call, state, constants.get(), places)) {
      flush();
      if (!commands->add(kernels, call, state, constants.get(), places)) {
        last = i + 1;
        flush();
      }
    }
    last = i + 1;
  }
  flush();
  return made.indirect.empty() ? std::nullopt : std::optional(std::move(made));
}

} // namespace at::mps
