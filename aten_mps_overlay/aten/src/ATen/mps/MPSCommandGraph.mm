#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSProfiler.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>

#include <algorithm>
#include <atomic>

namespace at::mps {

using native::mps::dispatch_sync_with_rethrow;

MPSCommandGraph::MPSCommandGraph() = default;

MPSCommandGraph::~MPSCommandGraph() {
  try {
    captureAbort();
  } catch (const std::exception& error) {
    TORCH_WARN("torch.mps graph capture could not be ended while its graph was destroyed: ", error.what());
  }
}

void MPSCommandGraph::captureBegin(std::optional<MPSGraphPool> pool, MPSCaptureErrorMode error_mode) {
  TORCH_CHECK(!work_,
              "torch.mps graph capture: this graph already holds a capture. Call reset() first, or capture into "
              "another graph.");
  auto& profiler = getMPSProfiler();
  TORCH_CHECK(
      !profiler.isOperationProfilingEnabled() && !profiler.isSignpostTracingEnabled() && !profiler.isCapturing(),
      "torch.mps graph capture: the MPS profiler is on. Stop it before the capture begins.");
  auto* stream = getCurrentMPSStream();
  pool_ = pool ? pool : newGraphPool();
  __block std::vector<Generator> generators = generators_;
  generators.push_back(detail::getDefaultMPSGenerator());
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    // on the queue, so that of two threads only one can begin
    TORCH_CHECK(!stream->capture(), "torch.mps graph capture: another capture is underway; captures can't be nested.");
    stream->endKernelCoalescing();
    capture_ = std::make_unique<MPSGraphCapture>(error_mode, *pool_, std::move(generators));
    stream->setCapture(capture_.get());
  });
}

void MPSCommandGraph::captureEnd() {
  TORCH_CHECK(capture_, "torch.mps graph capture: capture_end() was called on a graph that is not being captured.");
  auto* stream = getCurrentMPSStream();
  // destroyed after the queue is left: unpinning frees memory, for which the allocator needs the queue
  std::unique_ptr<MPSGraphCapture> capture = std::move(capture_);
  auto* ending = capture.get();
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    stream->endKernelCoalescing();
    TORCH_INTERNAL_ASSERT(stream->capture() == ending);
    stream->setCapture(nullptr);
  });
  auto work = capture->finish();
  work->prepare(stream->device(), stream->compilationDescriptor());
  work_ = std::move(work);
  replays_ = 0;
}

void MPSCommandGraph::captureAbort() {
  if (!capture_) {
    return;
  }
  auto* stream = getCurrentMPSStream();
  std::unique_ptr<MPSGraphCapture> capture = std::move(capture_);
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    stream->endKernelCoalescing();
    stream->setCapture(nullptr);
  });
}

void MPSCommandGraph::replay() {
  TORCH_CHECK(!capture_, "torch.mps graph replay: this graph is still being captured.");
  TORCH_CHECK(work_, "torch.mps graph replay: this graph is empty. Capture into it first.");
  if (work_->steps.empty()) {
    TORCH_WARN(
        "torch.mps graph replay: nothing ran on the MPS device during the capture, so there is nothing to "
        "replay.");
    return;
  }
  work_->checkStorages();
  auto* stream = getCurrentMPSStream();
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    @autoreleasepool {
      if (auto* capture = stream->capture()) {
        capture->keepPart(work_);
      }
      work_->encode(stream);
      // lets the GPU start, as eager work does whenever the backend commits
      stream->synchronize(SyncType::COMMIT);
      replays_++;
    }
  });
}

void MPSCommandGraph::reset() {
  TORCH_CHECK(!capture_, "torch.mps graph: reset() was called while the graph is being captured.");
  work_.reset();
  replays_ = 0;
}

MPSGraphPool MPSCommandGraph::pool() const {
  TORCH_CHECK(pool_, "torch.mps graph: pool() was called before a capture.");
  return *pool_;
}

void MPSCommandGraph::registerGeneratorState(const Generator& generator) {
  TORCH_CHECK(!capture_,
              "torch.mps graph: register_generator_state() was called while the graph is being captured. Register "
              "generators before the capture.");
  TORCH_CHECK(generator.defined() && generator.device().type() == kMPS,
              "torch.mps graph: register_generator_state() takes a generator of the MPS device");
  const bool known =
      std::any_of(generators_.begin(), generators_.end(), [&](const Generator& other) { return other == generator; });
  if (!known) {
    generators_.push_back(generator);
  }
}

MPSCommandGraphStats MPSCommandGraph::stats() const {
  MPSCommandGraphStats stats;
  if (!work_) {
    return stats;
  }
  for (const auto& step : work_->steps) {
    stats.kernels += std::holds_alternative<MPSKernelStep>(step);
    stats.graph_runs += std::holds_alternative<MPSGraphRunStep>(step);
    stats.copies += std::holds_alternative<MPSCopyStep>(step);
    stats.fills += std::holds_alternative<MPSFillStep>(step);
    stats.kernel_objects += std::holds_alternative<MPSEncodeStep>(step);
    stats.host_refreshes += std::holds_alternative<MPSHostRefreshStep>(step);
  }
  stats.executables = work_->executables;
  const auto* allocator = getIMPSAllocator();
  for (const auto* buffer : work_->pinned.buffers()) {
    stats.buffers++;
    stats.buffer_bytes += allocator->getUnalignedBufferSize(buffer);
  }
  stats.pool_bytes = allocator->getPoolSize(*pool_);
  stats.replays = replays_;
  return stats;
}

static std::vector<uint64_t> numbers(MTLSize size) {
  return {size.width, size.height, size.depth};
}

static MPSCommandGraphStep describe(const MPSKernelStep& kernel) {
  uint64_t buffers = 0;
  uint64_t bytes = 0;
  for (const auto& binding : kernel.bindings) {
    buffers += !binding.holds_bytes;
    bytes += binding.bytes.size();
  }
  const char* size = kernel.size_kind == MPSKernelStep::Size::THREADS ? "threads" : "threadgroups";
  return {"kernel",
          {{size, numbers(kernel.size)},
           {"threads_per_threadgroup", numbers(kernel.threadgroup)},
           {"buffers", {buffers}},
           {"bytes", {bytes}}}};
}

static MPSCommandGraphStep describe(const MPSGraphRunStep& run) {
  return {"graph_run", {{"inputs", {run.inputs.get().count}}, {"results", {run.results.get().count}}}};
}

static MPSCommandGraphStep describe(const MPSCopyStep& copy) {
  return {"copy", {{"length", {copy.length}}}};
}

static MPSCommandGraphStep describe(const MPSFillStep& fill) {
  return {"fill", {{"length", {fill.length}}, {"value", {fill.value}}}};
}

static MPSCommandGraphStep describe(const MPSEncodeStep&) {
  return {"kernel_object", {}};
}

static MPSCommandGraphStep describe(const MPSHostRefreshStep& refresh) {
  return {"host_refresh", {{"length", {refresh.length}}}};
}

std::vector<MPSCommandGraphStep> MPSCommandGraph::steps() const {
  std::vector<MPSCommandGraphStep> result;
  if (work_) {
    for (const auto& step : work_->steps) {
      result.push_back(std::visit([](const auto& one) { return describe(one); }, step));
    }
  }
  return result;
}

MPSGraphPool newGraphPool() {
  static std::atomic<uint64_t> next{1};
  return {0, next++};
}

bool isCurrentStreamCapturing() {
  return getCurrentMPSStream()->capture() != nullptr;
}

void assertNotCapturing(const std::string& what) {
  TORCH_CHECK(!isCurrentStreamCapturing(), "torch.mps graph capture: ", what);
}

} // namespace at::mps
