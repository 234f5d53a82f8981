#include <ATen/mps/MPSIndirectCommands.h>
#include <ATen/mps/MPSKernelPipelines.h>

#include <algorithm>
#include <map>
#include <set>

namespace at::mps {

bool MPSIndirectCommands::canHold(const MPSKernelStep& kernel) {
  const bool has_all = std::all_of(kernel.bindings.begin(), kernel.bindings.end(), [](const auto& binding) {
    return binding.holds_bytes ? !binding.bytes.empty() : binding.buffer.get() != nil;
  });
  const bool has_threads = kernel.size.width > 0 && kernel.size.height > 0 && kernel.size.depth > 0;
  return has_all && has_threads && kernel.size_kind != MPSKernelStep::Size::INDIRECT &&
      kernel.threadgroup_memory.empty() && indirectPipeline(kernel.pipeline.get()).get();
}

static void setCommand(id<MTLIndirectComputeCommand> command,
                       id<MTLComputePipelineState> pipeline,
                       const MPSIndirectKernel& indirect) {
  const auto& kernel = *indirect.kernel;
  [command setComputePipelineState:pipeline];
  for (size_t i = 0; i < kernel.bindings.size(); i++) {
    const auto& [buffer, offset] = indirect.arguments[i];
    [command setKernelBuffer:buffer offset:offset atIndex:kernel.bindings[i].index];
  }
  if (kernel.size_kind == MPSKernelStep::Size::THREADS) {
    [command concurrentDispatchThreads:kernel.size threadsPerThreadgroup:kernel.threadgroup];
  } else {
    [command concurrentDispatchThreadgroups:kernel.size threadsPerThreadgroup:kernel.threadgroup];
  }
}

std::unique_ptr<MPSIndirectCommands> MPSIndirectCommands::plan(id<MTLDevice> device,
                                                               const std::vector<MPSIndirectKernel>& kernels) {
  std::unique_ptr<MPSIndirectCommands> planned(new MPSIndirectCommands());
  // tinygrad reports that GPUs before Apple's ninth family do not load the pipelines of commands by themselves
  constexpr auto ninth_family = static_cast<MTLGPUFamily>(1009);
  const bool uses_pipelines_first = ![device supportsFamily:ninth_family];
  std::set<id> used_first;
  std::set<id> resources;
  const auto use = [&](id<MTLResource> resource) {
    if (resources.insert(resource).second) {
      planned->resources_.push_back(resource);
    }
  };
  for (const auto& indirect : kernels) {
    auto pipeline = indirectPipeline(indirect.kernel->pipeline.get());
    if (!pipeline.get()) {
      return nullptr; // its library has gone meanwhile
    }
    if (uses_pipelines_first && used_first.insert(pipeline.get()).second) {
      planned->first_uses_.push_back(firstUseOf(pipeline, indirect));
    }
    for (const auto& [buffer, offset] : indirect.arguments) {
      use(buffer);
    }
    for (const auto& resource : indirect.kernel->resources) {
      use(resource.resource.get());
    }
    planned->pipelines_.push_back(std::move(pipeline));
  }
  return planned;
}

bool MPSIndirectCommands::make(id<MTLDevice> device, const std::vector<MPSIndirectKernel>& kernels) {
  NSUInteger slots = 1;
  for (const auto& indirect : kernels) {
    for (const auto& binding : indirect.kernel->bindings) {
      slots = std::max(slots, binding.index + 1);
    }
  }
  MTLIndirectCommandBufferDescriptor* descriptor = [[MTLIndirectCommandBufferDescriptor new] autorelease];
  descriptor.commandTypes = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  descriptor.inheritPipelineState = NO;
  descriptor.inheritBuffers = NO;
  descriptor.maxKernelBufferBindCount = slots;
  commands_ = [[device newIndirectCommandBufferWithDescriptor:descriptor
                                              maxCommandCount:kernels.size()
                                                      options:MTLResourceStorageModeShared] autorelease];
  if (!commands_.get()) {
    return false;
  }
  for (size_t i = 0; i < kernels.size(); i++) {
    id<MTLIndirectComputeCommand> command = [commands_.get() indirectComputeCommandAtIndex:i];
    setCommand(command, pipelines_[i].get(), kernels[i]);
    if (i > 0 && kernels[i].waits) {
      [command setBarrier];
    }
  }
  return true;
}

MPSIndirectCommands::FirstUse MPSIndirectCommands::firstUseOf(MPSRetained<id<MTLComputePipelineState>> pipeline,
                                                              const MPSIndirectKernel& indirect) {
  std::map<NSUInteger, std::pair<id<MTLBuffer>, NSUInteger>> arguments;
  for (size_t i = 0; i < indirect.arguments.size(); i++) {
    arguments[indirect.kernel->bindings[i].index] = indirect.arguments[i];
  }
  FirstUse use{std::move(pipeline), {}};
  for (const auto& [index, argument] : arguments) {
    if (use.bound.empty() || use.bound.back().index + use.bound.back().buffers.size() != index) {
      use.bound.emplace_back().index = index;
    }
    use.bound.back().buffers.push_back(argument.first);
    use.bound.back().offsets.push_back(argument.second);
  }
  return use;
}

size_t MPSIndirectCommands::calls() const {
  size_t calls = resources_.empty() ? 1 : 2;
  for (const auto& use : first_uses_) {
    calls += 2 + use.bound.size();
  }
  return calls;
}

void MPSIndirectCommands::addUsedTo(NSMutableArray* objects) const {
  for (const auto& pipeline : pipelines_) {
    [objects addObject:pipeline.get()];
  }
  for (id<MTLResource> resource : resources_) {
    [objects addObject:resource];
  }
}

void MPSIndirectCommands::encode(id<MTLComputeCommandEncoder> encoder) const {
  if (!resources_.empty()) {
    [encoder useResources:resources_.data() count:resources_.size() usage:MTLResourceUsageRead | MTLResourceUsageWrite];
  }
  for (const auto& use : first_uses_) {
    [encoder setComputePipelineState:use.pipeline.get()];
    for (const auto& bound : use.bound) {
      [encoder setBuffers:bound.buffers.data()
                  offsets:bound.offsets.data()
                withRange:NSMakeRange(bound.index, bound.buffers.size())];
    }
    [encoder dispatchThreadgroups:MTLSizeMake(0, 0, 0) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
  }
  [encoder executeCommandsInBuffer:commands_.get() withRange:NSMakeRange(0, pipelines_.size())];
}

} // namespace at::mps
