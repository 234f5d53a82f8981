#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSReplay.h>
#include <c10/util/irange.h>

#include <chrono>
#include <unordered_map>

namespace at::mps {

MPSRunLinker run_linker = nullptr;

MPSReplay::MPSReplay(std::shared_ptr<const MPSRecording> recording,
                     bool indirect_commands,
                     size_t link_limit,
                     MPSGraphPool pool,
                     id<MTLDevice> device,
                     MPSGraphCompilationDescriptor* descriptor)
    : recording_(std::move(recording)) {
  @autoreleasepool {
    if (link_limit > 0) {
      link(link_limit, pool, device, descriptor);
    }
    plan_.emplace(planReplay(recording_->steps, linked_, indirect_commands, device));
    NSMutableArray* used = [NSMutableArray arrayWithArray:recording_->executables.get()];
    for (const auto& run : linked_) {
      [used addObject:run.executable.get()];
    }
    plan_->addUsedIndirectlyTo(used);
    used_ = [[used copy] autorelease];
  }
  std::vector<std::string> messages;
  for (const auto& check : recording_->status_checks) {
    messages.push_back(check.message);
  }
  check_messages_ = std::make_shared<const std::vector<std::string>>(std::move(messages));
}

void MPSReplay::link(size_t limit, MPSGraphPool pool, id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  const auto begin = std::chrono::steady_clock::now();
  if (!run_linker) {
    TORCH_WARN_ONCE(
        "torch.mps graph capture: link=True does nothing, since this build lacks MPSLinkedReplay.mm. Apply the entry "
        "linked-replay, too.");
    return;
  }
  auto runs = run_linker(*recording_, device, descriptor, pool, limit);
  if (!runs) {
    TORCH_WARN_ONCE(
        "torch.mps graph capture: link=True needs macOS 15.0 or newer. The MPSGraph runs of this graph and of later "
        "ones are replayed one by one.");
    return;
  }
  linked_ = std::move(*runs);
  const auto taken = std::chrono::steady_clock::now() - begin;
  link_microseconds_ = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
}

// Each replay inside a capture refreshes its bytes by itself: `refreshed` maps those of the graph to those of the
// capture.
static void encodeKernel(
    MPSRecordingEncoder* recorder,
    const MPSKernelStep& kernel,
    const MPSReplayRefreshes& refreshes,
    id<MTLBuffer> staging,
    std::unordered_map<const MPSRefreshedBytes*, std::shared_ptr<const MPSRefreshedBytes>>& refreshed) {
  auto encoder = (id<MTLComputeCommandEncoder>)recorder;
  [encoder setComputePipelineState:kernel.pipeline.get()];
  for (const auto& binding : kernel.bindings) {
    if (const auto* bytes = binding.refreshed.get()) {
      auto& own = refreshed[bytes];
      if (!own) {
        own = std::make_shared<const MPSRefreshedBytes>(*bytes);
      }
      [recorder setRefreshedBytes:own
                           nowAre:static_cast<const char*>([staging contents]) + refreshes.offsetOf(*bytes)
                          atIndex:binding.index];
    } else if (binding.holds_bytes) {
      [encoder setBytes:binding.bytes.data() length:binding.bytes.size() atIndex:binding.index];
    } else {
      [encoder setBuffer:binding.buffer.get() offset:binding.offset atIndex:binding.index];
    }
  }
  for (const auto& memory : kernel.threadgroup_memory) {
    [encoder setThreadgroupMemoryLength:memory.length atIndex:memory.index];
  }
  for (const auto& use : kernel.resources) {
    [encoder useResource:use.resource.get() usage:use.usage];
  }
  if (kernel.barrier) {
    [encoder memoryBarrierWithScope:kernel.barrier];
  }
  encodeDispatch(encoder, kernel);
}

static void encodeBlit(MPSStream* stream, void (^encode)(id<MTLBlitCommandEncoder>)) {
  stream->endKernelCoalescing();
  @autoreleasepool {
    id<MTLBlitCommandEncoder> encoder = [stream->recordedCommandBuffer() blitCommandEncoder];
    encode(encoder);
    [encoder endEncoding];
  }
}

// Inside a capture of another graph. The stream's compute encoder records by itself, the rest is handed over. Each step
// is on its own, so that what is recorded of it is just what it is.
void MPSReplay::encodeForCapture(MPSStream* stream,
                                 MPSGraphCapture* capture,
                                 MPSReplayWatch& watch,
                                 id<MTLBuffer> staging) const {
  capture->keepPart(recording_);
  std::unordered_map<const MPSRefreshedBytes*, std::shared_ptr<const MPSRefreshedBytes>> refreshed;
  for (const auto i : c10::irange(recording_->steps.size())) {
    const auto& step = recording_->steps[i];
    setInnermostOperator(recording_->operators[i].c_str());
    stream->endKernelCoalescing();
    if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
      encodeKernel((MPSRecordingEncoder*)stream->commandEncoder(), *kernel, plan_->refreshes(), staging, refreshed);
      continue;
    }
    @autoreleasepool {
      if (const auto* run = std::get_if<MPSGraphRunStep>(&step)) {
        encodeRun(stream->recordedCommandBuffer(), *run);
        watch.look();
      } else if (const auto* encode = std::get_if<MPSEncodeStep>(&step)) {
        encodeAlone(stream->recordedCommandBuffer(), *encode);
        watch.look();
      } else {
        encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
          if (const auto* copy = std::get_if<MPSCopyStep>(&step)) {
            encodeCopy(encoder, *copy);
          } else if (const auto* fill = std::get_if<MPSFillStep>(&step)) {
            encodeFill(encoder, *fill);
          } else {
            plan_->refreshes().encode(encoder, staging, std::get<MPSHostRefreshStep>(step));
          }
        });
      }
    }
    capture->recordStep(step);
  }
  capture->keepChecks(*recording_);
}

void MPSReplay::encode(MPSStream* stream) const {
  id<MTLBuffer> statuses = newStatusCopies(stream->device()); // first: it may raise
  stream->endKernelCoalescing();
  // its errors are not those of the replay, which may have to wait for it
  stream->commitEarlierWork();
  const auto staging = plan_->refreshes().write(stream->device());
  recording_->countReplay();
  // the graph may be dropped before the GPU is done
  MPSReplayWatch watch(stream, used_.get());
  watch.look();
  if (auto* capture = stream->recordingCapture()) {
    encodeForCapture(stream, capture, watch, staging.get());
  } else {
    plan_->encode(stream, watch, staging.get());
  }
  stream->endKernelCoalescing();
  if (statuses) {
    encodeStatusCopies(stream, statuses);
    const auto messages = check_messages_;
    watch.watch(^(id<MTLCommandBuffer>) {
      const auto* values = static_cast<const int32_t*>([statuses contents]);
      for (const auto i : c10::irange(messages->size())) {
        if (values[i] != 0) {
          return "torch.mps graph replay: " + messages->at(i) + " (status " + std::to_string(values[i]) + ")";
        }
      }
      return std::string();
    });
  }
}

// The buffers of a status are written again by the next replay, perhaps before the host has looked: it looks at copies.
id<MTLBuffer> MPSReplay::newStatusCopies(id<MTLDevice> device) const {
  const auto count = recording_->status_checks.size();
  if (count == 0) {
    return nil;
  }
  id<MTLBuffer> copies = [[device newBufferWithLength:count * sizeof(int32_t)
                                              options:MTLResourceStorageModeShared] autorelease];
  TORCH_CHECK(copies, "torch.mps graph replay: out of memory");
  return copies;
}

void MPSReplay::encodeStatusCopies(MPSStream* stream, id<MTLBuffer> copies) const {
  constexpr size_t length = sizeof(int32_t);
  encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
    for (const auto i : c10::irange(recording_->status_checks.size())) {
      const auto& check = recording_->status_checks[i];
      encodeCopy(encoder, {check.buffer, copies, length, check.offset, i * length});
    }
  });
}

} // namespace at::mps
