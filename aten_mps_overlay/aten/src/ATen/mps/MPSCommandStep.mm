#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSExecutableCache.h>

#include <algorithm>

namespace at::mps {

bool usesComputeEncoder(const MPSCommandStep& step) {
  const auto* object = std::get_if<MPSEncodeStep>(&step);
  return std::holds_alternative<MPSKernelStep>(step) || (object && object->takes_encoder);
}

void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy) {
  constexpr size_t largest_piece = 0x80000000;
  for (size_t done = 0; done < copy.length; done += largest_piece) {
    [encoder copyFromBuffer:copy.source.get()
               sourceOffset:copy.source_offset + done
                   toBuffer:copy.destination.get()
          destinationOffset:copy.destination_offset + done
                       size:std::min(largest_piece, copy.length - done)];
  }
}

void encodeDispatch(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernel) {
  switch (kernel.size_kind) {
    case MPSKernelStep::Size::THREADS:
      [encoder dispatchThreads:kernel.size threadsPerThreadgroup:kernel.threadgroup];
      break;
    case MPSKernelStep::Size::THREADGROUPS:
      [encoder dispatchThreadgroups:kernel.size threadsPerThreadgroup:kernel.threadgroup];
      break;
    case MPSKernelStep::Size::INDIRECT:
      [encoder dispatchThreadgroupsWithIndirectBuffer:kernel.indirect_buffer.get()
                                 indirectBufferOffset:kernel.indirect_offset
                                threadsPerThreadgroup:kernel.threadgroup];
      break;
  }
}

void encodeAlone(MPSCommandBuffer* command_buffer, const MPSEncodeStep& step) {
  id<MTLComputeCommandEncoder> encoder = step.takes_encoder ? [command_buffer computeCommandEncoder] : nil;
  step.encode.get()(command_buffer, encoder);
  [encoder endEncoding];
}

void encodeRun(MPSCommandBuffer* command_buffer, const MPSGraphRunStep& run) {
  encodeExecutable(run.executable.get(), command_buffer, run.inputs.get(), run.results.get());
}

} // namespace at::mps
