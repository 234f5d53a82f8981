#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCapturedWork.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <chrono>
#include <mutex>
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

bool MPSWatchedTensor::forgotten() const {
  return !storage_ && tensor_.expired();
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

void MPSCapturedWork::instantiate(id<MTLDevice> device,
                                  MPSGraphCompilationDescriptor* descriptor,
                                  MPSGraphPool used_pool,
                                  size_t link_limit) {
  auto made = std::make_shared<MPSReplayInstance>();
  @autoreleasepool {
    made->executables = executables_;
    made->plan.emplace(steps, made->linked, mechanisms, device);
    if (link_limit > 0) {
      link(*made, device, descriptor, used_pool, link_limit);
    }
  }
  std::vector<std::string> messages;
  for (const auto& check : status_checks) {
    messages.push_back(check.message);
  }
  made->check_messages = std::make_shared<const std::vector<std::string>>(std::move(messages));
  // another thread may be encoding what was there before
  std::lock_guard<std::mutex> lock(instance_mutex_);
  instance_ = std::move(made);
}

std::shared_ptr<const MPSReplayInstance> MPSCapturedWork::instance() const {
  std::lock_guard<std::mutex> lock(instance_mutex_);
  return instance_;
}

void MPSCapturedWork::compile(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  @autoreleasepool {
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
    executables_ = distinct.allObjects;
  }
}

MPSRunLinker run_linker = nullptr;

void MPSCapturedWork::link(MPSReplayInstance& instance,
                           id<MTLDevice> device,
                           MPSGraphCompilationDescriptor* descriptor,
                           MPSGraphPool used_pool,
                           size_t limit) const {
  const auto begin = std::chrono::steady_clock::now();
  auto runs = run_linker ? run_linker(*this, *instance.plan, device, descriptor, used_pool, limit) : std::nullopt;
  if (!runs) {
    TORCH_WARN_ONCE(
        "torch.mps graph capture: link=True needs macOS 15.0 or newer. The MPSGraph runs of this graph and of later "
        "ones are replayed one by one.");
    return;
  }
  instance.linked = std::move(*runs);
  if (!instance.linked.empty()) {
    instance.plan.emplace(steps, instance.linked, mechanisms, device);
    NSMutableArray* all = [NSMutableArray arrayWithArray:instance.executables.get()];
    for (const auto& run : instance.linked) {
      [all addObject:run.executable.get()];
    }
    instance.executables = [[all copy] autorelease];
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  instance.link_microseconds = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
}

void MPSCapturedWork::watchTensors(std::vector<MPSWatchedTensor> tensors) {
  std::lock_guard<std::mutex> lock(watched_mutex_);
  watched_ = std::move(tensors);
}

void MPSCapturedWork::checkStorages() const {
  checkTensors();
  instance()->plan->checkRefreshes();
  for (const auto& part : parts) {
    part->checkStorages();
  }
}

void MPSCapturedWork::checkTensors() const {
  std::lock_guard<std::mutex> lock(watched_mutex_);
  size_t forgotten = 0;
  for (const auto& tensor : watched_) {
    forgotten += tensor.forgotten();
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
  if (2 * forgotten > watched_.size()) {
    watched_.erase(
        std::remove_if(watched_.begin(), watched_.end(), [](const auto& tensor) { return tensor.forgotten(); }),
        watched_.end());
  }
}

// Each replay inside a capture refreshes its bytes by itself: `refreshed` maps those of the graph to those of the capture.
static void encodeKernel(
    MPSRecordingEncoder* recorder,
    const MPSKernelStep& kernel,
    const MPSReplayPlan& plan,
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
      [recorder setRefreshedBytes:own nowAre:plan.findBytes(staging, *bytes) atIndex:binding.index];
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
void MPSCapturedWork::encodeForCapture(MPSStream* stream,
                                       MPSGraphCapture* capture,
                                       const MPSReplayInstance& instance,
                                       MPSReplayWatch& watch,
                                       id<MTLBuffer> staging) const {
  std::unordered_map<const MPSRefreshedBytes*, std::shared_ptr<const MPSRefreshedBytes>> refreshed;
  for (const auto i : c10::irange(steps.size())) {
    const auto& step = steps[i];
    capture->setReplayedOperator(&operators[i]);
    stream->endKernelCoalescing();
    if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
      encodeKernel((MPSRecordingEncoder*)stream->commandEncoder(), *kernel, *instance.plan, staging, refreshed);
      continue;
    }
    @autoreleasepool {
      if (const auto* run = std::get_if<MPSGraphRunStep>(&step)) {
        [run->executable.get() encodeToCommandBuffer:stream->recordedCommandBuffer()
                                         inputsArray:run->inputs.get()
                                        resultsArray:run->results.get()
                                 executionDescriptor:executableExecutionDescriptor()];
        watch.look();
      } else if (const auto* encode = std::get_if<MPSEncodeStep>(&step)) {
        encodeAlone(stream, *encode);
        watch.look();
      } else {
        encodeBlit(stream, ^(id<MTLBlitCommandEncoder> encoder) {
          if (const auto* copy = std::get_if<MPSCopyStep>(&step)) {
            encodeCopy(encoder, *copy);
          } else if (const auto* fill = std::get_if<MPSFillStep>(&step)) {
            [encoder fillBuffer:fill->buffer.get() range:NSMakeRange(fill->offset, fill->length) value:fill->value];
          } else {
            instance.plan->encodeRefresh(encoder, staging, std::get<MPSHostRefreshStep>(step));
          }
        });
      }
    }
    capture->recordStep(step);
  }
  capture->setReplayedOperator(nullptr);
  capture->keepChecks(*this);
}

void MPSCapturedWork::encode(MPSStream* stream) const {
  // kept, since another thread may make a new one
  const auto made = instance();
  const auto staging = made->plan->writeRefreshes(stream->device());
  stream->endKernelCoalescing();
  // its errors are not those of the replay
  stream->commitEarlierWork();
  // the graph may be dropped before the GPU is done
  MPSReplayWatch watch(stream, made->executables.get());
  watch.look();
  if (auto* capture = stream->recordingCapture()) {
    encodeForCapture(stream, capture, *made, watch, staging.get());
  } else {
    made->plan->encode(stream, watch, staging.get());
  }
  id<MTLBuffer> statuses = encodeStatusCopies(stream);
  stream->endKernelCoalescing();
  if (statuses) {
    // the graph may be gone by then
    const auto messages = made->check_messages;
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
