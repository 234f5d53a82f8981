#include <ATen/mps/MPSCommandStep.h>

#include <algorithm>

namespace at::mps {

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

void encodeFill(id<MTLBlitCommandEncoder> encoder, const MPSFillStep& fill) {
  [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
}

void encodeAlone(MPSCommandBuffer* command_buffer, const MPSEncodeStep& step) {
  id<MTLComputeCommandEncoder> encoder = step.takes_encoder ? [command_buffer computeCommandEncoder] : nil;
  step.encode.get()(command_buffer, encoder);
  [encoder endEncoding];
}

} // namespace at::mps
