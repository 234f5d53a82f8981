#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCapturedWork.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace at::mps {

MPSWatchedTensor::MPSWatchedTensor(const TensorBase& tensor)
    : tensor_(tensor.getIntrusivePtr()),
      data_(tensor.storage().data()),
      nbytes_(tensor.storage().nbytes()),
      dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes().vec()) {}

bool MPSWatchedTensor::moved() const {
  const auto tensor = tensor_.lock();
  if (!tensor) {
    return false; // its owner let go of it; the graph keeps the memory
  }
  return !tensor->has_storage() || tensor->storage().data() != data_ || tensor->storage().nbytes() < nbytes_;
}

std::string MPSWatchedTensor::describe() const {
  std::ostringstream text;
  text << "the " << dtype_ << " tensor of shape " << IntArrayRef(sizes_) << ", recorded with a storage of " << nbytes_
       << " bytes, ";
  const auto tensor = tensor_.lock();
  if (!tensor || !tensor->has_storage()) {
    text << "has no storage now";
  } else {
    text << "now has shape " << tensor->sizes() << " and another storage of " << tensor->storage().nbytes() << " bytes";
  }
  return text.str();
}

MPSPinnedBuffers::~MPSPinnedBuffers() {
  const auto* allocator = getIMPSAllocator();
  for (const auto* buffer : buffers_) {
    allocator->unpin(buffer);
  }
}

void MPSCapturedWork::prepare(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  @autoreleasepool {
    compileGraphRuns(device, descriptor);
    planCalls();
  }
}

void MPSCapturedWork::compileGraphRuns(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  // layers of a model often run the same cached MPSGraph on the same shapes: one executable serves them all
  std::map<std::vector<uint64_t>, MPSRetained<MPSGraphExecutable*>> compiled;
  MPSGraphDevice* graph_device = [MPSGraphDevice deviceWithMTLDevice:device];
  for (auto& step : steps) {
    auto* run = std::get_if<MPSGraphRunStep>(&step);
    if (!run || run->executable.get()) {
      continue;
    }
    NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds = run->feeds.get();
    NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets = run->targets.get();
    NSMutableDictionary<MPSGraphTensor*, MPSGraphShapedType*>* types =
        [NSMutableDictionary dictionaryWithCapacity:feeds.count];
    std::vector<std::vector<uint64_t>> keys;
    for (MPSGraphTensor* tensor in feeds) {
      MPSGraphTensorData* data = feeds[tensor];
      types[tensor] = [[[MPSGraphShapedType alloc] initWithShape:data.shape dataType:data.dataType] autorelease];
      auto& key = keys.emplace_back();
      key.push_back(reinterpret_cast<uint64_t>(tensor));
      key.push_back(data.dataType);
      for (NSNumber* length in data.shape) {
        key.push_back(length.unsignedLongLongValue);
      }
    }
    for (MPSGraphTensor* tensor in targets) {
      keys.push_back({reinterpret_cast<uint64_t>(tensor)});
    }
    // a dictionary has no order that could be relied on, a key needs one
    std::sort(keys.begin(), keys.end());
    std::vector<uint64_t> key{reinterpret_cast<uint64_t>(run->graph.get())};
    for (const auto& part : keys) {
      key.push_back(part.size());
      key.insert(key.end(), part.begin(), part.end());
    }
    auto& executable = compiled[key];
    if (!executable.get()) {
      executable = [run->graph.get() compileWithDevice:graph_device
                                                 feeds:types
                                         targetTensors:targets.allKeys
                                      targetOperations:nil
                                 compilationDescriptor:descriptor];
      TORCH_CHECK(executable.get(), "torch.mps graph capture: an MPSGraph could not be compiled to an executable");
    }
    run->executable = executable;
    NSMutableArray<MPSGraphTensorData*>* inputs = [NSMutableArray arrayWithCapacity:feeds.count];
    for (MPSGraphTensor* tensor in executable.get().feedTensors) {
      [inputs addObject:feeds[tensor]];
    }
    NSMutableArray<MPSGraphTensorData*>* results = [NSMutableArray arrayWithCapacity:targets.count];
    for (MPSGraphTensor* tensor in executable.get().targetTensors) {
      [results addObject:targets[tensor]];
    }
    run->inputs = inputs;
    run->results = results;
  }
  executables = compiled.size();
}

namespace {

// What the encoder of a replay holds at a point of the plan, to leave out calls that would change nothing.
class EncoderState {
 public:
  explicit EncoderState(std::vector<MPSEncoderCall>& calls) : calls_(calls) {}

  void restart() {
    pipeline_ = nil;
    bindings_.clear();
    threadgroup_memory_.clear();
    resources_.clear();
  }

  void plan(const MPSCommandStep& step, const MPSKernelStep& kernel) {
    using Kind = MPSEncoderCall::Kind;
    if (holdsOtherThreadgroupMemory(kernel)) {
      // the step before came from another encoder, and lengths of one encoder add up against the device's limit
      calls_.push_back({Kind::END_ENCODER, &step});
      restart();
    }
    if (pipeline_ != kernel.pipeline.get()) {
      pipeline_ = kernel.pipeline.get();
      calls_.push_back({Kind::SET_PIPELINE, &step});
    }
    for (const auto i : c10::irange(kernel.bindings.size())) {
      planBinding(step, kernel.bindings[i], i);
    }
    for (const auto i : c10::irange(kernel.threadgroup_memory.size())) {
      const auto& memory = kernel.threadgroup_memory[i];
      const auto [position, is_new] = threadgroup_memory_.try_emplace(memory.index, memory.length);
      if (is_new || position->second != memory.length) {
        position->second = memory.length;
        calls_.push_back({Kind::SET_THREADGROUP_MEMORY, &step, i});
      }
    }
    for (const auto i : c10::irange(kernel.resources.size())) {
      const auto& use = kernel.resources[i];
      if (resources_.emplace(use.resource.get(), use.usage).second) {
        calls_.push_back({Kind::USE_RESOURCE, &step, i});
      }
    }
    if (kernel.barrier) {
      calls_.push_back({Kind::MEMORY_BARRIER, &step});
    }
    calls_.push_back({Kind::DISPATCH, &step});
  }

 private:
  bool holdsOtherThreadgroupMemory(const MPSKernelStep& kernel) const {
    return std::any_of(threadgroup_memory_.begin(), threadgroup_memory_.end(), [&](const auto& held) {
      return std::none_of(kernel.threadgroup_memory.begin(), kernel.threadgroup_memory.end(), [&](const auto& memory) {
        return memory.index == held.first;
      });
    });
  }

  void planBinding(const MPSCommandStep& step, const MPSKernelBinding& binding, size_t entry) {
    using Kind = MPSEncoderCall::Kind;
    const auto*& bound = bindings_[binding.index];
    if (!bound || !(*bound == binding)) {
      const bool same_buffer = bound && !bound->holds_bytes && !binding.holds_bytes && binding.buffer.get() &&
          bound->buffer == binding.buffer;
      calls_.push_back(
          {binding.holds_bytes ? Kind::SET_BYTES : (same_buffer ? Kind::SET_BUFFER_OFFSET : Kind::SET_BUFFER),
           &step,
           entry});
    }
    bound = &binding;
  }

  std::vector<MPSEncoderCall>& calls_;
  id<MTLComputePipelineState> pipeline_ = nil;
  std::map<NSUInteger, const MPSKernelBinding*> bindings_;
  std::map<NSUInteger, NSUInteger> threadgroup_memory_;
  std::set<std::pair<id<MTLResource>, MTLResourceUsage>> resources_;
};

} // namespace

void MPSCapturedWork::planCalls() {
  using Kind = MPSEncoderCall::Kind;
  EncoderState state(calls_);
  for (const auto& step : steps) {
    if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
      state.plan(step, *kernel);
      continue;
    }
    // everything else ends the compute encoder, and the next one starts with nothing bound
    state.restart();
    if (std::holds_alternative<MPSGraphRunStep>(step)) {
      calls_.push_back({Kind::RUN_GRAPH, &step});
    } else if (std::holds_alternative<MPSCopyStep>(step)) {
      calls_.push_back({Kind::COPY, &step});
    } else {
      calls_.push_back({Kind::FILL, &step});
    }
  }
}

void MPSCapturedWork::checkStorages() const {
  for (const auto& tensor : watched) {
    TORCH_CHECK(!tensor.moved(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". A graph reads and writes the memory that its tensors had during capture: update tensors in place "
                "(copy_(), fill_(), ...) instead of resizing or replacing them, or capture again.");
  }
  for (const auto& part : parts) {
    part->checkStorages();
  }
}

static void encodeDispatch(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernel) {
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

static void encodeKernelCall(id<MTLComputeCommandEncoder> encoder,
                             const MPSEncoderCall& call,
                             const MPSKernelStep& kernel) {
  using Kind = MPSEncoderCall::Kind;
  switch (call.kind) {
    case Kind::SET_PIPELINE:
      [encoder setComputePipelineState:kernel.pipeline.get()];
      break;
    case Kind::SET_BUFFER: {
      const auto& binding = kernel.bindings[call.entry];
      [encoder setBuffer:binding.buffer.get() offset:binding.offset atIndex:binding.index];
      break;
    }
    case Kind::SET_BUFFER_OFFSET: {
      const auto& binding = kernel.bindings[call.entry];
      [encoder setBufferOffset:binding.offset atIndex:binding.index];
      break;
    }
    case Kind::SET_BYTES: {
      const auto& binding = kernel.bindings[call.entry];
      [encoder setBytes:binding.bytes.data() length:binding.bytes.size() atIndex:binding.index];
      break;
    }
    case Kind::SET_THREADGROUP_MEMORY: {
      const auto& memory = kernel.threadgroup_memory[call.entry];
      [encoder setThreadgroupMemoryLength:memory.length atIndex:memory.index];
      break;
    }
    case Kind::USE_RESOURCE: {
      const auto& use = kernel.resources[call.entry];
      [encoder useResource:use.resource.get() usage:use.usage];
      break;
    }
    case Kind::MEMORY_BARRIER:
      [encoder memoryBarrierWithScope:kernel.barrier];
      break;
    default:
      encodeDispatch(encoder, kernel);
      break;
  }
}

static void encodeGraphRun(MPSStream* stream, const MPSGraphRunStep& run) {
  stream->endKernelCoalescing();
  @autoreleasepool {
    [run.executable.get() encodeToCommandBuffer:stream->commandBuffer()
                                    inputsArray:run.inputs.get()
                                   resultsArray:run.results.get()
                            executionDescriptor:nil];
  }
}

static void encodeBlit(MPSStream* stream, void (^encode)(id<MTLBlitCommandEncoder>)) {
  stream->endKernelCoalescing();
  @autoreleasepool {
    id<MTLBlitCommandEncoder> encoder = [stream->commandBuffer() blitCommandEncoder];
    encode(encoder);
    [encoder endEncoding];
  }
}

static void encodeCopy(MPSStream* stream, const MPSCopyStep& copy) {
  encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
    // in the pieces that MPSStream::copy uses: a blit of 4 GiB or more fails without an error
    constexpr size_t largest_piece = 0x80000000;
    for (size_t done = 0; done < copy.length; done += largest_piece) {
      [encoder copyFromBuffer:copy.source.get()
                 sourceOffset:copy.source_offset + done
                     toBuffer:copy.destination.get()
            destinationOffset:copy.destination_offset + done
                         size:std::min(largest_piece, copy.length - done)];
    }
  });
}

static void encodeFill(MPSStream* stream, const MPSFillStep& fill) {
  encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
    [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
  });
}

void MPSCapturedWork::encode(MPSStream* stream) const {
  // inside a capture of another graph the stream's compute encoder records by itself, the rest is handed over
  auto* capture = stream->capture();
  for (const auto& call : calls_) {
    switch (call.kind) {
      case MPSEncoderCall::Kind::RUN_GRAPH:
        encodeGraphRun(stream, std::get<MPSGraphRunStep>(*call.step));
        break;
      case MPSEncoderCall::Kind::COPY:
        encodeCopy(stream, std::get<MPSCopyStep>(*call.step));
        break;
      case MPSEncoderCall::Kind::FILL:
        encodeFill(stream, std::get<MPSFillStep>(*call.step));
        break;
      case MPSEncoderCall::Kind::END_ENCODER:
        stream->endKernelCoalescing();
        continue;
      default:
        encodeKernelCall(stream->commandEncoder(), call, std::get<MPSKernelStep>(*call.step));
        continue;
    }
    if (capture) {
      capture->recordStep(*call.step);
    }
  }
}

} // namespace at::mps
