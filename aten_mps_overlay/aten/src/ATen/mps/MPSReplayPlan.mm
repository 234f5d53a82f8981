#include <ATen/mps/MPSReplayPlan.h>

namespace at::mps {

void MPSReplayWatch::look() {
  id<MTLCommandBuffer> command_buffer = stream_->recordedCommandBuffer().commandBuffer;
  if (command_buffer != watched_.get()) {
    watched_ = command_buffer;
    watch(^(id<MTLCommandBuffer>) {
      return std::string();
    });
  }
}

void MPSReplayWatch::watch(std::string (^problem)(id<MTLCommandBuffer>)) {
  auto* stream = stream_;
  NSObject* kept = kept_;
  const size_t check = stream->expectCheck();
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer> command_buffer) {
    (void)kept; // the block retains it
    if (command_buffer.status == MTLCommandBufferStatusError) {
      const char* reason = command_buffer.error.localizedDescription.UTF8String;
      stream->finishCheck(
          check,
          std::string("torch.mps graph replay: the GPU reported an error: ") + (reason ? reason : "it gave no reason"));
    } else {
      stream->finishCheck(check, problem(command_buffer));
    }
  }];
}

void MPSReplayWatch::afterwards(void (^block)()) {
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer>) {
    block();
  }];
}

void MPSReplayPlan::encodeBlit(MPSCommandBuffer* command_buffer,
                               const MPSReplayCall& call,
                               id<MTLBuffer> staging) const {
  using Kind = MPSReplayCall::Kind;
  id<MTLBlitCommandEncoder> encoder = [command_buffer blitCommandEncoder];
  if (call.kind == Kind::COPY) {
    encodeCopy(encoder, *static_cast<const MPSCopyStep*>(call.data));
  } else if (call.kind == Kind::FILL) {
    encodeFill(encoder, *static_cast<const MPSFillStep*>(call.data));
  } else {
    made_.refreshes.encode(encoder, staging, *static_cast<const MPSHostRefreshStep*>(call.data));
  }
  [encoder endEncoding];
}

void MPSReplayPlan::encode(MPSStream* stream, MPSReplayWatch& watch, id<MTLBuffer> staging) const {
  made_.refreshes.encodeEarly(stream->recordedCommandBuffer(), staging);
  for (auto next = made_.calls.begin(); next != made_.calls.end();) {
    @autoreleasepool {
      next = encodePiece(next, stream, watch, staging);
    }
  }
  if (staging) {
    auto buffers = made_.refreshes.stagingBuffers();
    const size_t number = buffers->lend(staging, watch.last());
    watch.afterwards(^{
      buffers->giveBack(number);
    });
  }
}

MPSReplayPlan::Calls::const_iterator MPSReplayPlan::encodePiece(Calls::const_iterator next,
                                                                MPSStream* stream,
                                                                MPSReplayWatch& watch,
                                                                id<MTLBuffer> staging) const {
  using Kind = MPSReplayCall::Kind;
  MPSCommandBuffer* command_buffer = stream->recordedCommandBuffer();
  id<MTLComputeCommandEncoder> kernels = nil;
  const auto open_kernels = [&] {
    if (!kernels) {
      kernels = [command_buffer computeCommandEncoder];
    }
  };
  while (next != made_.calls.end()) {
    const auto& call = *next++;
    switch (call.kind) {
      case Kind::SET_PIPELINE:
        // the first call of each encoder
        open_kernels();
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
        [kernels setBytes:static_cast<const char*>([staging contents]) + call.value
                   length:call.count
                  atIndex:call.index];
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
        open_kernels();
        static_cast<const MPSIndirectCommands*>(call.data)->encode(kernels);
        break;
      case Kind::END_ENCODER:
        [kernels endEncoding];
        kernels = nil;
        break;
      case Kind::RUN_GRAPH:
        encodeRun(command_buffer, *static_cast<const MPSGraphRunStep*>(call.data));
        watch.look();
        break;
      case Kind::RUN_LINKED:
        encodeRun(command_buffer, *static_cast<const MPSLinkedRun*>(call.data));
        watch.look();
        break;
      case Kind::ENCODE:
        encodeAlone(command_buffer, *static_cast<const MPSEncodeStep*>(call.data));
        watch.look();
        break;
      case Kind::ENCODE_WITH_ENCODER:
        open_kernels();
        static_cast<const MPSEncodeStep*>(call.data)->encode.get()(command_buffer, kernels);
        break;
      case Kind::COPY:
      case Kind::FILL:
      case Kind::REFRESH:
        encodeBlit(command_buffer, call, staging);
        break;
      case Kind::COMMIT:
        stream->synchronize(SyncType::COMMIT);
        watch.look();
        return next;
    }
  }
  [kernels endEncoding];
  return next;
}

} // namespace at::mps
