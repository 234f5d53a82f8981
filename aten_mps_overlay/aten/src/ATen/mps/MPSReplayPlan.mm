#include <ATen/mps/MPSReplayPlan.h>
#include <ATen/mps/MPSStepEncoder.h>

namespace at::mps {

void MPSReplayPlan::encode(MPSStepEncoder& steps, id<MTLBuffer> staging) const {
  using Kind = MPSReplayCall::Kind;
  id<MTLComputeCommandEncoder> kernels = nil;
  for (const auto& call : made_.calls) {
    switch (call.kind) {
      case Kind::SET_PIPELINE:
        // the first call after a step that is no kernel
        kernels = steps.computeEncoder();
        [kernels setComputePipelineState:static_cast<id<MTLComputePipelineState>>(call.object)];
        break;
      case Kind::SET_BUFFER:
        [kernels setBuffer:static_cast<id<MTLBuffer>>(call.object) offset:call.value atIndex:call.index];
        break;
      case Kind::SET_BUFFER_OFFSET:
        [kernels setBufferOffset:call.value atIndex:call.index];
        break;
      case Kind::SET_BUFFERS:
        [kernels setBuffers:made_.buffers.data() + call.value
                    offsets:made_.offsets.data() + call.value
                  withRange:NSMakeRange(call.index, call.count)];
        break;
      case Kind::SET_BYTES:
        [kernels setBytes:call.data length:call.count atIndex:call.index];
        break;
      case Kind::SET_REFRESHED_BYTES:
        [kernels setBuffer:staging offset:call.value atIndex:call.index];
        break;
      case Kind::SET_THREADGROUP_MEMORY:
        [kernels setThreadgroupMemoryLength:call.value atIndex:call.index];
        break;
      case Kind::USE_RESOURCE:
        [kernels useResource:static_cast<id<MTLResource>>(call.object) usage:static_cast<MTLResourceUsage>(call.value)];
        break;
      case Kind::MEMORY_BARRIER:
        [kernels memoryBarrierWithScope:static_cast<MTLBarrierScope>(call.value)];
        break;
      case Kind::DISPATCH:
        encodeDispatch(kernels, *static_cast<const MPSKernelStep*>(call.data));
        break;
      case Kind::EXECUTE:
        static_cast<const MPSIndirectCommands*>(call.data)->encode(steps.computeEncoder());
        break;
      case Kind::END_ENCODER:
        steps.endComputeEncoder();
        break;
      case Kind::STEP:
        steps.encode(*static_cast<const MPSCommandStep*>(call.data));
        break;
      case Kind::COMMIT:
        steps.commit();
        break;
    }
  }
}

} // namespace at::mps
