#pragma once

// What Metal tells of the functions of pipelines. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>

namespace at::mps {

/// Remembers what a pipeline is made of, until forgetFunction(): only a
/// pipeline of its own can be in an indirect command buffer, which is made of
/// the same function.
void noteFunction(
    id<MTLComputePipelineState> pipeline,
    id<MTLFunction> function);
void forgetFunction(id<MTLComputePipelineState> pipeline);

/// What a kernel does with its buffers: a bit for each index.
struct MPSKernelAccess {
  uint64_t reads = ~uint64_t(0);
  uint64_t writes = ~uint64_t(0);
};

/// By Metal's reflection. A kernel whose function is not known may read and
/// write all of its buffers.
MPSKernelAccess kernelAccess(id<MTLComputePipelineState> pipeline);

/// Nil if the function is not known, or can't be in an indirect command buffer.
MPSRetained<id<MTLComputePipelineState>> indirectPipeline(
    id<MTLComputePipelineState> pipeline);

} // namespace at::mps
