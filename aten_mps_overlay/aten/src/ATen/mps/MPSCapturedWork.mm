#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCapturedWork.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

namespace at::mps {

// How many watch each tensor; weak references keep the addresses from being used again.
static std::mutex watched_mutex;
static std::unordered_map<const TensorImpl*, size_t>& watchedTensors() {
  // never destroyed: graphs may outlive all statics
  static auto* tensors = new std::unordered_map<const TensorImpl*, size_t>();
  return *tensors;
}

MPSWatchMark::MPSWatchMark(const TensorImpl* tensor) : tensor_(tensor) {
  std::lock_guard<std::mutex> lock(watched_mutex);
  watchedTensors()[tensor]++;
}

MPSWatchMark::~MPSWatchMark() {
  if (!tensor_) {
    return;
  }
  std::lock_guard<std::mutex> lock(watched_mutex);
  const auto position = watchedTensors().find(tensor_);
  if (--position->second == 0) {
    watchedTensors().erase(position);
  }
}

bool isWatchedByGraph(const TensorBase& tensor) {
  std::lock_guard<std::mutex> lock(watched_mutex);
  return watchedTensors().count(tensor.unsafeGetTensorImpl()) > 0;
}

MPSWatchedTensor::MPSWatchedTensor(const TensorBase& tensor, bool check_liveness)
    : tensor_(tensor.getIntrusivePtr()),
      mark_(tensor.unsafeGetTensorImpl()),
      data_(tensor.storage().data()),
      nbytes_(tensor.storage().nbytes()),
      dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes().vec()) {
  if (check_liveness) {
    storage_.emplace(tensor.storage().getWeakStorageImpl());
  }
}

bool MPSWatchedTensor::gone() const {
  return storage_ && storage_->expired();
}

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
  if (gone()) {
    text << "is gone";
  } else if (!tensor || !tensor->has_storage()) {
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

MPSPoolReference::MPSPoolReference(MPSGraphPool pool) : pool_(pool) {
  getIMPSAllocator()->retainPool(pool_);
}

MPSPoolReference::~MPSPoolReference() {
  getIMPSAllocator()->releasePool(pool_);
}

void MPSCapturedWork::prepare(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  @autoreleasepool {
    compileGraphRuns(device, descriptor);
    planRefreshes();
    planCalls();
  }
  std::vector<std::string> messages;
  for (const auto& check : status_checks) {
    messages.push_back(check.message);
  }
  check_messages_ = std::make_shared<const std::vector<std::string>>(std::move(messages));
}

void MPSCapturedWork::compileGraphRuns(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  NSMutableSet* distinct = [NSMutableSet set];
  for (auto& step : steps) {
    auto* run = std::get_if<MPSGraphRunStep>(&step);
    if (!run) {
      continue;
    }
    // a step that came from a replay of another graph has all this already
    if (!run->executable.get()) {
      const auto compiled = MPSExecutableCache::getInstance().get(
          run->graph.get(), run->feeds.get(), run->targets.get(), device, descriptor);
      TORCH_CHECK(compiled.executable, "torch.mps graph capture: ", compiled.problem, ". The capture was dropped.");
      run->executable = compiled.executable;
      run->inputs = compiled.inputs;
      run->results = compiled.results;
      run->graph = {};
      run->feeds = {};
      run->targets = {};
    }
    [distinct addObject:run->executable.get()];
  }
  executables = distinct.count;
  executables_ = distinct.allObjects;
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

// The bytes of a refresh whose destination is its own go to the device before all other work of the replay, together
// with those of others. Earlier replays have read theirs by then: the GPU works in the order of the stream.
void MPSCapturedWork::planRefreshes() {
  using Kind = MPSEncoderCall::Kind;
  constexpr size_t alignment = 16;
  std::map<const void*, size_t> uses;
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      uses[refresh->destination.get()]++;
    }
  }
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      const bool is_early = refresh->owns_destination && uses.at(refresh->destination.get()) == 1;
      has_early_refreshes_ |= is_early;
      refreshes_.push_back({is_early ? Kind::EARLY_REFRESH : Kind::REFRESH, &step, staging_length_});
      staging_length_ += (refresh->length + alignment - 1) / alignment * alignment;
    }
  }
}

void MPSCapturedWork::planCalls() {
  using Kind = MPSEncoderCall::Kind;
  EncoderState state(calls_);
  auto next_refresh = refreshes_.begin();
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
    } else if (std::holds_alternative<MPSFillStep>(step)) {
      calls_.push_back({Kind::FILL, &step});
    } else if (std::holds_alternative<MPSEncodeStep>(step)) {
      calls_.push_back({Kind::ENCODE, &step});
    } else {
      calls_.push_back(*next_refresh++);
    }
  }
}

void MPSCapturedWork::checkStorages() const {
  for (const auto& tensor : watched) {
    TORCH_CHECK(!tensor.gone(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". It existed before the capture, which was begun with check_input_liveness=True: keep a reference to "
                "each input and update it in place (copy_(), fill_(), ...) instead of replacing it, or capture again.");
    TORCH_CHECK(!tensor.moved(),
                "torch.mps graph replay: ",
                tensor.describe(),
                ". A graph reads and writes the memory that its tensors had during capture: update tensors in place "
                "(copy_(), fill_(), ...) instead of resizing or replacing them, or capture again.");
  }
  for (const auto& call : refreshes_) {
    std::get<MPSHostRefreshStep>(*call.step).refresh->check();
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
    [run.executable.get() encodeToCommandBuffer:stream->recordedCommandBuffer()
                                    inputsArray:run.inputs.get()
                                   resultsArray:run.results.get()
                            executionDescriptor:executableExecutionDescriptor()];
  }
}

static void encodeBlit(MPSStream* stream, void (^encode)(id<MTLBlitCommandEncoder>)) {
  stream->endKernelCoalescing();
  @autoreleasepool {
    id<MTLBlitCommandEncoder> encoder = [stream->recordedCommandBuffer() blitCommandEncoder];
    encode(encoder);
    [encoder endEncoding];
  }
}

// In the pieces that MPSStream::copy uses: a blit of 4 GiB or more fails without an error.
static void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy) {
  constexpr size_t largest_piece = 0x80000000;
  for (size_t done = 0; done < copy.length; done += largest_piece) {
    [encoder copyFromBuffer:copy.source.get()
               sourceOffset:copy.source_offset + done
                   toBuffer:copy.destination.get()
          destinationOffset:copy.destination_offset + done
                       size:std::min(largest_piece, copy.length - done)];
  }
}

static void encodeRefresh(id<MTLBlitCommandEncoder> encoder, id<MTLBuffer> staging, const MPSEncoderCall& call) {
  const auto& refresh = std::get<MPSHostRefreshStep>(*call.step);
  encodeCopy(encoder, {staging, refresh.destination, refresh.length, call.entry, refresh.offset});
}

// A buffer for each replay: the GPU may still read that of the one before.
id<MTLBuffer> MPSCapturedWork::newStaging(id<MTLDevice> device) const {
  id<MTLBuffer> staging = [device newBufferWithLength:staging_length_ options:MTLResourceStorageModeShared];
  TORCH_CHECK(staging,
              "torch.mps graph replay: out of memory for the ",
              staging_length_,
              " bytes that the host gives to the device");
  return staging;
}

namespace {

/// Looks for errors in each command buffer that a replay encodes to: an executable or a kernel object may commit one
/// and go on in the next.
class ReplayWatch {
 public:
  explicit ReplayWatch(MPSStream* stream) : stream_(stream) {}

  /// After something that may have committed; also before the first.
  void look() {
    id<MTLCommandBuffer> command_buffer = stream_->recordedCommandBuffer().commandBuffer;
    if (command_buffer != watched_.get()) {
      watched_ = command_buffer;
      watch(^(id<MTLCommandBuffer>) {
        return std::string();
      });
    }
  }

  /// `problem` is asked on completion for an error that the GPU does not know of.
  void watch(std::string (^problem)(id<MTLCommandBuffer>)) {
    auto* stream = stream_;
    const size_t check = stream->expectCheck();
    [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer> command_buffer) {
      if (command_buffer.status == MTLCommandBufferStatusError) {
        const char* reason = command_buffer.error.localizedDescription.UTF8String;
        stream->finishCheck(check,
                            std::string("torch.mps graph replay: the GPU reported an error: ") +
                                (reason ? reason : "it gave no reason"));
      } else {
        stream->finishCheck(check, problem(command_buffer));
      }
    }];
  }

 private:
  MPSStream* const stream_;
  MPSRetained<id<MTLCommandBuffer>> watched_;
};

} // namespace

void MPSCapturedWork::encode(MPSStream* stream) const {
  using Kind = MPSEncoderCall::Kind;
  // inside a capture of another graph the stream's compute encoder records by itself, the rest is handed over
  auto* capture = stream->recordingCapture();
  id<MTLBuffer> staging = nil;
  if (!refreshes_.empty()) {
    staging = [newStaging(stream->device()) autorelease];
    auto* bytes = static_cast<char*>([staging contents]);
    for (const auto& call : refreshes_) {
      std::get<MPSHostRefreshStep>(*call.step).refresh->write(bytes + call.entry);
    }
  }
  stream->endKernelCoalescing();
  // its errors are not those of the replay
  stream->commitEarlierWork();
  ReplayWatch watch(stream);
  watch.look();
  if (has_early_refreshes_ && !capture) {
    encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
      for (const auto& call : refreshes_) {
        if (call.kind == Kind::EARLY_REFRESH) {
          encodeRefresh(encoder, staging, call);
        }
      }
    });
  }
  for (const auto& call : calls_) {
    if (capture) {
      capture->setReplayedOperator(&operators[call.step - steps.data()]);
    }
    switch (call.kind) {
      case Kind::RUN_GRAPH:
        encodeGraphRun(stream, std::get<MPSGraphRunStep>(*call.step));
        watch.look();
        break;
      case Kind::COPY:
        encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
          encodeCopy(encoder, std::get<MPSCopyStep>(*call.step));
        });
        break;
      case Kind::FILL:
        encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
          const auto& fill = std::get<MPSFillStep>(*call.step);
          [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
        });
        break;
      case Kind::ENCODE:
        stream->endKernelCoalescing();
        @autoreleasepool {
          std::get<MPSEncodeStep>(*call.step).encode.get()(stream->recordedCommandBuffer());
        }
        watch.look();
        break;
      case Kind::EARLY_REFRESH:
        if (!capture) {
          continue;
        }
        [[fallthrough]];
      case Kind::REFRESH:
        encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
          encodeRefresh(encoder, staging, call);
        });
        break;
      case Kind::END_ENCODER:
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
  if (capture) {
    capture->setReplayedOperator(nullptr);
    capture->keepChecks(*this);
  }
  id<MTLBuffer> statuses = encodeStatusCopies(stream);
  stream->endKernelCoalescing();
  if (statuses) {
    // the graph may be gone by then
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
  if (executables > 0) {
    // the graph may be dropped before the GPU is done
    stream->keepUntilDone(executables_.get());
  }
}

// The buffers of a status are written again by the next replay, perhaps before the host has looked: it looks at copies.
id<MTLBuffer> MPSCapturedWork::encodeStatusCopies(MPSStream* stream) const {
  constexpr size_t length = sizeof(int32_t);
  const auto count = status_checks.size();
  if (count == 0) {
    return nil;
  }
  id<MTLBuffer> copies = [[stream->device() newBufferWithLength:count * length
                                                        options:MTLResourceStorageModeShared] autorelease];
  TORCH_CHECK(copies, "torch.mps graph replay: out of memory");
  encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
    for (const auto i : c10::irange(count)) {
      const auto& check = status_checks[i];
      encodeCopy(encoder, {check.buffer, copies, length, check.offset, i * length});
    }
  });
  return copies;
}

} // namespace at::mps
