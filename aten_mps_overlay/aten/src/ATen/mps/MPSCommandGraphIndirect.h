#pragma once

// Kernels of a replay in indirect command buffers, which are encoded once and
// executed by one call each. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>

#include <optional>

namespace at::mps {

/// Remembers what a pipeline is made of, until forgetFunction(): only a
/// pipeline of its own can be in an indirect command buffer, which is made of
/// the same function.
void noteFunction(id<MTLComputePipelineState> pipeline, id<MTLFunction> function);
void forgetFunction(id<MTLComputePipelineState> pipeline);

/// Returns a step that executes the kernels by an indirect command buffer, in
/// their order, or nothing if a command can't hold one of them or if that takes
/// no fewer calls. Adds to `used` what the GPU needs until it is done.
std::optional<MPSEncodeStep> withIndirectCommands(const MPSKernelStep& kernels,
                                                  id<MTLDevice> device,
                                                  NSMutableArray* used);

} // namespace at::mps
