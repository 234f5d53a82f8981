#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <ATen/mps/MPSProfiler.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

// of ATen/autocast_mode.h, which includes all operators
namespace at::autocast {
TORCH_API void clear_cache();
}

namespace at::mps {

using namespace native::mps; // dispatch_sync_with_rethrow(), until it moved to at::mps

MPSCommandGraph::MPSCommandGraph(bool keep_graph, size_t encode_ahead)
    : keep_graph_(keep_graph), encode_ahead_(encode_ahead) {}

// Takes the capture off the stream, so that nothing that other threads do from here on is part of it.
static std::unique_ptr<MPSCommandGraphCapture> detachFromStream(std::unique_ptr<MPSCommandGraphCapture>& underway) {
  auto* stream = getCurrentMPSStream();
  std::unique_ptr<MPSCommandGraphCapture> capture = std::move(underway);
  auto* ending = capture.get();
  ending->recordNoThread();
  stream->runOnQueue([&] {
    stream->endKernelCoalescing();
    ending->stop();
  });
  // Casts made in the block lie in the graph's pool. The next replay overwrites them.
  autocast::clear_cache();
  return capture;
}

MPSCommandGraph::~MPSCommandGraph() {
  try {
    // without the lock, which must not be taken on the queue: nobody else has the graph
    if (capture_) {
      detachFromStream(capture_);
    }
  } catch (const std::exception& error) {
    TORCH_WARN("torch.mps graph capture could not be ended while its graph was destroyed: ", error.what());
  }
}

void MPSCommandGraph::captureBegin(std::optional<MPSCommandGraphPool> pool,
                                   bool freeze_host_reads,
                                   bool check_input_liveness) {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!capture_, "torch.mps graph capture: this graph is being captured already; captures can't be nested.");
  TORCH_CHECK(!recording_,
              "torch.mps graph capture: this graph already holds a capture. Call reset() first, or capture into "
              "another graph.");
  auto& profiler = getMPSProfiler();
  TORCH_CHECK(
      !profiler.isOperationProfilingEnabled() && !profiler.isSignpostTracingEnabled() && !profiler.isCapturing(),
      "torch.mps graph capture: the MPS profiler is on. Stop it before the capture begins.");
  detail::getDefaultMPSGenerator(); // a draw of the block would make it, and seed it
  // Casts made before the block would not be recorded.
  autocast::clear_cache();
  auto* stream = getCurrentMPSStream();
  const auto used_pool = pool ? *pool : newGraphPool();
  const bool is_nested = isCurrentStreamCapturing();
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    // on the queue, so that of two threads only one can begin
    TORCH_CHECK(
        !isCaptureUnderway(),
        "torch.mps graph capture: ",
        is_nested ? "another capture is underway; captures can't be nested."
                  : "another thread captures. All threads share one stream, so captures must follow each other: hold a "
                    "lock around each capture.");
    stream->endKernelCoalescing();
    capture_ = std::make_unique<MPSCommandGraphCapture>(
        freeze_host_reads, used_pool, draws_from_default_only_, check_input_liveness);
  });
  if (keep_graph_) {
    capture_->wantLines();
  }
  if (is_of_callable_) {
    capture_->nameResults();
  }
  capture_->recordThisThread();
  pool_ = used_pool;
}

void MPSCommandGraph::captureEnd() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(
      capture_,
      "torch.mps graph capture: capture_end() was called on a graph that is not being captured. Call capture_begin() first.");
  const auto capture = detachFromStream(capture_);
  auto recording = capture->finish(is_of_callable_);
  replay_ = keep_graph_ ? nullptr : makeReplay(recording);
  recording_ = std::move(recording);
  replays_ = 0;
}

std::shared_ptr<const MPSCommandGraphReplay> MPSCommandGraph::makeReplay(
    std::shared_ptr<const MPSCommandGraphRecording> recording) const {
  return std::make_shared<const MPSCommandGraphReplay>(std::move(recording), encode_ahead_, getCurrentMPSStream());
}

void MPSCommandGraph::instantiate() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!capture_, "torch.mps graph: instantiate() was called while the graph is being captured.");
  TORCH_CHECK(recording_, "torch.mps graph: instantiate() was called on an empty graph. Capture into it first.");
  TORCH_CHECK(keep_graph_,
              "torch.mps graph: instantiate() needs a graph that keeps its recording. Make it with "
              "torch.mps.Graph(keep_graph=True).");
  replay_ = makeReplay(recording_);
}

void MPSCommandGraph::captureAbort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (capture_) {
    detachFromStream(capture_);
  }
  if (!recording_) {
    failure_ = reason;
  }
}

void MPSCommandGraph::replay() {
  std::shared_ptr<const MPSCommandGraphReplay> made;
  {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(!capture_, "torch.mps graph replay: this graph is still being captured.");
    TORCH_CHECK(recording_,
                "torch.mps graph replay: this graph is empty. Capture into it first.",
                failure_.empty() ? "" : " Its last capture raised ",
                failure_);
    if (!replay_) {
      replay_ = makeReplay(recording_);
    }
    made = replay_; // another thread may reset the graph meanwhile
  }
  try {
    made->check();
  } catch (...) {
    made->dropReady();
    throw;
  }
  submit(std::move(made));
}

std::shared_ptr<const MPSCommandGraphReplay> MPSCommandGraph::tryCheck() const {
  std::shared_ptr<const MPSCommandGraphReplay> made;
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && !capture_) {
    made = replay_;
  }
  try {
    if (made) {
      made->check();
    }
  } catch (const std::exception&) {
    return nullptr;
  }
  return made;
}

void MPSCommandGraph::submit(std::shared_ptr<const MPSCommandGraphReplay> replay) {
  if (replay->isEmpty()) {
    TORCH_WARN(
        "torch.mps graph replay: nothing ran on the MPS device during the capture, so there is nothing to "
        "replay.");
    return;
  }
  auto* stream = getCurrentMPSStream();
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    @autoreleasepool {
      replay->submit(stream);
    }
  });
  replay->giveBackGradients();
  std::lock_guard lock(mutex_);
  if (replay_ == replay) {
    replays_++;
  }
}

void MPSCommandGraph::reset() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!capture_, "torch.mps graph: reset() was called while the graph is being captured.");
  recording_.reset();
  replay_.reset();
  failure_.clear();
  replays_ = 0;
}

MPSCommandGraphPool MPSCommandGraph::pool() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(pool_, "torch.mps graph: pool() was called before a capture.");
  return *pool_;
}

std::vector<std::pair<TensorBase, std::string>> MPSCommandGraph::resultsInUse(
    bool (*is_wanted)(const c10::TensorImpl&)) const {
  std::shared_ptr<const MPSCommandGraphRecording> recording;
  {
    std::lock_guard lock(mutex_);
    recording = recording_;
  }
  std::vector<std::pair<TensorBase, std::string>> results;
  for (const auto& tensor : recording->inputs.tensors()) {
    auto living = tensor.was.living();
    if (living && tensor.kind == MPSCommandGraphInputs::Kind::RESULT && is_wanted(*living)) {
      results.emplace_back(TensorBase(std::move(living)), tensor.was.describe());
    }
  }
  return results;
}

c10::impl::GenericDict MPSCommandGraph::stats() const {
  std::lock_guard lock(mutex_);
  c10::impl::GenericDict stats(c10::StringType::get(), c10::AnyType::get());
  const auto add = [&](const char* name, size_t count) {
    const int64_t so_far = stats.contains(name) ? stats.at(name).toInt() : 0;
    stats.insert_or_assign(name, so_far + static_cast<int64_t>(count));
  };
  const MPSCommandGraphRecording none;
  const auto& recording = recording_ ? *recording_ : none;
  // by kind of step
  constexpr std::array names = {"kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes"};
  for (const char* name : names) {
    add(name, 0);
  }
  for (const auto& step : recording.steps) {
    const auto* kernels = std::get_if<MPSKernelStep>(&step);
    add("kernel_objects", kernels ? kernels->objects.size() : 0);
    if (step.index() < names.size()) {
      add(names[step.index()], kernels ? kernels->dispatches : 1);
    }
  }
  add("constants", recording.constants);
  add("executables", recording.executables.get().count);
  add("buffers", recording.pinned.buffers().size());
  add("buffer_bytes", 0);
  for (const auto* buffer : recording.pinned.buffers()) {
    add("buffer_bytes", ((id<MTLBuffer>)buffer).length);
  }
  add("pool_bytes", recording_ ? getIMPSAllocator()->getPoolSize(*pool_) : 0);
  const size_t ready = replay_ ? replay_->readyCount() : 0;
  add("ready_replays", ready);
  add("ready_bytes", ready > 0 ? ready * replay_->stagingBytes() : 0);
  stats.insert("why_not_ahead", replay_ ? replay_->whyNotAhead() : "");
  add("replays", replays_);
  return stats;
}

size_t MPSCommandGraph::overwrites() const {
  std::lock_guard lock(mutex_);
  return recording_ ? recording_->overwrites->count() : 0;
}

bool MPSCommandGraph::keeps(const TensorBase& tensor) const {
  std::lock_guard lock(mutex_);
  return recording_ && tensor.has_storage() && recording_->keeps(tensor.storage().data());
}

MPSCommandGraphPool newGraphPool() {
  static std::atomic<uint64_t> next{1};
  return {0, next++};
}

} // namespace at::mps
