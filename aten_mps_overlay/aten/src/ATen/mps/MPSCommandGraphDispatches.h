#pragma once

// The dispatches of a recorded compute encoder, with the state that each one runs with. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>

#include <map>
#include <utility>
#include <vector>

namespace at::mps {

/// The state of a compute encoder, as the calls of a step change it.
class MPSEncoderState {
 public:
  /// What is bound at one index: a buffer, bytes, or bytes that each replay gets anew.
  struct Argument {
    id<MTLBuffer> buffer = nil;
    NSUInteger offset = 0;
    const void* bytes = nullptr;
    size_t length = 0;
    const MPSRefreshedBytes* refreshed = nullptr;
  };

  explicit MPSEncoderState(const MPSKernelStep& kernels) : kernels_(kernels) {}

  /// Takes the next call of the step.
  void apply(const MPSEncoderCall& call);

  id<MTLComputePipelineState> pipeline = nil;
  std::map<NSUInteger, Argument> arguments;
  std::map<NSUInteger, NSUInteger> threadgroup_memory;
  // since the last dispatch
  std::vector<std::pair<id<MTLResource>, MTLResourceUsage>> new_resources;

 private:
  void bind(NSUInteger index, id<MTLBuffer> buffer, NSUInteger offset);
  void use(id<MTLResource> resource, MTLResourceUsage usage);

  const MPSKernelStep& kernels_;
  bool is_after_dispatch_ = false;
};

} // namespace at::mps
