#include <ATen/mps/MPSCommandGraphPipelines.h>

#include <mutex>
#include <unordered_map>

namespace at::mps {

namespace {

struct Known {
  MPSRetained<id<MTLFunction>> function;
  // filled in when it is first asked for
  bool is_filled_in = false;
  MPSRetained<id<MTLComputePipelineState>> indirect;
  MPSKernelAccess access;
};

std::mutex known_mutex;
std::unordered_map<const void*, Known>& knownPipelines() {
  // never destroyed: libraries of kernels may be destroyed later
  static auto* known = new std::unordered_map<const void*, Known>();
  return *known;
}

MPSKernelAccess accessOf(MTLComputePipelineReflection* reflection) {
  // MTLBindingAccess, which SDKs before that of macOS 15 call MTLArgumentAccess
  constexpr NSUInteger read_only = 0;
  constexpr NSUInteger write_only = 2;
  MPSKernelAccess access{0, 0};
  for (id<MTLBinding> binding in reflection.bindings) {
    if (binding.type == MTLBindingTypeBuffer) {
      const auto kind = static_cast<NSUInteger>(binding.access);
      const uint64_t bit = uint64_t(1) << binding.index;
      access.reads |= kind == write_only ? 0 : bit;
      access.writes |= kind == read_only ? 0 : bit;
    }
  }
  return access;
}

void fillIn(id<MTLDevice> device, Known& known) {
  MTLComputePipelineDescriptor* descriptor = [[MTLComputePipelineDescriptor new] autorelease];
  descriptor.computeFunction = known.function.get();
  descriptor.supportIndirectCommandBuffers = YES;
  MTLComputePipelineReflection* reflection = nil;
  known.indirect = [[device newComputePipelineStateWithDescriptor:descriptor
                                                          options:MTLPipelineOptionArgumentInfo
                                                       reflection:&reflection
                                                            error:nil] autorelease];
  if (reflection) {
    known.access = accessOf(reflection);
  }
  known.is_filled_in = true;
}

template <typename Result>
Result lookUp(id<MTLComputePipelineState> pipeline, Result Known::*what) {
  std::lock_guard<std::mutex> lock(known_mutex);
  const auto position = knownPipelines().find(pipeline);
  if (position == knownPipelines().end()) {
    return {};
  }
  if (!position->second.is_filled_in) {
    fillIn(pipeline.device, position->second);
  }
  return position->second.*what;
}

} // namespace

void noteFunction(id<MTLComputePipelineState> pipeline, id<MTLFunction> function) {
  std::lock_guard<std::mutex> lock(known_mutex);
  knownPipelines()[pipeline].function = function;
}

void forgetFunction(id<MTLComputePipelineState> pipeline) {
  std::lock_guard<std::mutex> lock(known_mutex);
  knownPipelines().erase(pipeline);
}

MPSKernelAccess kernelAccess(id<MTLComputePipelineState> pipeline) {
  return lookUp(pipeline, &Known::access);
}

MPSRetained<id<MTLComputePipelineState>> indirectPipeline(id<MTLComputePipelineState> pipeline) {
  return lookUp(pipeline, &Known::indirect);
}

} // namespace at::mps
