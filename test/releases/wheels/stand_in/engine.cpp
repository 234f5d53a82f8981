// MPSCommandGraph as the overlay declares it, with the rules that its callers see and none of the device: operators that
// ran are run again.

#include "recorder.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSExecutableCacheStats.h>
#include <ATen/record_function.h>

#include <atomic>
#include <iterator>

namespace stand_in {

namespace {

std::mutex notes_mutex;
std::string notes;

std::atomic<at::mps::MPSCommandGraphCapture*> underway{nullptr};
std::atomic<at::CallbackHandle> underway_observer{at::INVALID_CALLBACK_HANDLE};

} // namespace

void note(const std::string& call) {
  std::lock_guard<std::mutex> lock(notes_mutex);
  notes += call + '\n';
}

} // namespace stand_in

/// The calls since the last time, one a line.
extern "C" __attribute__((visibility("default"))) const char* stand_in_calls() {
  static std::string taken;
  std::lock_guard<std::mutex> lock(stand_in::notes_mutex);
  taken = std::exchange(stand_in::notes, {});
  return taken.c_str();
}

namespace at::mps {

std::atomic<bool> detail::capture_underway{false};

// Of it, only what c10::DeviceAllocator has may be called.
IMPSAllocator* getIMPSAllocator() {
  return static_cast<IMPSAllocator*>(c10::GetAllocator(c10::DeviceType::MPS));
}

struct MPSCommandGraphRecording {
  std::vector<stand_in::Call> calls;
};

// What the engine lays down for replays; here the recording is enough.
class MPSCommandGraphReplay {};

class MPSCommandGraphCapture {
 public:
  bool freeze_host_reads = false;
  std::shared_ptr<MPSCommandGraphRecording> recording = std::make_shared<MPSCommandGraphRecording>();
  CallbackHandle observer = INVALID_CALLBACK_HANDLE;
};

// Only there to be handed on to autograd's threads, as the engine's own.
static std::unique_ptr<ObserverContext> observe(const RecordFunction&) {
  return nullptr;
}

static bool worksForCapture() {
  const auto observer = stand_in::underway_observer.load();
  for (const auto& entry : get_record_function_tls_().sorted_tls_callbacks_) {
    if (entry.handle_ == observer) {
      return true;
    }
  }
  return false;
}

MPSCommandGraph::MPSCommandGraph(bool keep_graph, size_t encode_ahead)
    : keep_graph_(keep_graph), encode_ahead_(encode_ahead) {
  stand_in::note(c10::str("new", keep_graph ? " keep_graph" : "", encode_ahead > 0 ? " ahead" : ""));
}

MPSCommandGraph::~MPSCommandGraph() {
  captureAbort();
}

void MPSCommandGraph::captureBegin(
    std::optional<MPSCommandGraphPool> pool,
    bool freeze_host_reads,
    bool check_input_liveness) {
  stand_in::note(c10::str(
      "begin pool=",
      pool ? c10::str(pool->first, ',', pool->second) : "none",
      freeze_host_reads ? " frozen" : "",
      check_input_liveness ? " liveness" : ""));
  TORCH_CHECK(!capture_ && !stand_in::underway, "torch.mps graph capture: captures can't be nested.");
  TORCH_CHECK(!recording_, "torch.mps graph capture: this graph already holds a capture. Call reset() first.");
  capture_ = std::make_unique<MPSCommandGraphCapture>();
  capture_->freeze_host_reads = freeze_host_reads;
  capture_->observer =
      addThreadLocalCallback(RecordFunctionCallback(&observe).scopes({RecordScope::FUNCTION}));
  stand_in::underway = capture_.get();
  detail::capture_underway = true;
  stand_in::underway_observer = capture_->observer;
  pool_ = pool ? *pool : newGraphPool();
}

static void detachFromStream(MPSCommandGraphCapture& capture) {
  if (worksForCapture()) {
    removeCallback(capture.observer);
  }
  stand_in::underway_observer = INVALID_CALLBACK_HANDLE;
  detail::capture_underway = false;
  stand_in::underway = nullptr;
}

void MPSCommandGraph::captureEnd() {
  stand_in::note("end");
  TORCH_CHECK(capture_, "torch.mps graph capture: capture_end() was called on a graph that is not being captured. Call capture_begin() first.");
  detachFromStream(*capture_);
  recording_ = capture_->recording;
  capture_.reset();
  replays_ = 0;
}

void MPSCommandGraph::captureAbort(const std::string& /*reason*/) {
  if (capture_) {
    stand_in::note("abort");
    detachFromStream(*capture_);
    capture_.reset();
  }
}

void MPSCommandGraph::instantiate() {
  stand_in::note("instantiate");
  TORCH_CHECK(recording_, "torch.mps graph: instantiate() was called on an empty graph. Capture into it first.");
  TORCH_CHECK(keep_graph_, "torch.mps graph: instantiate() wants MPSGraph(keep_graph=True).");
}

void MPSCommandGraph::replay() {
  stand_in::note("replay");
  TORCH_CHECK(!capture_, "torch.mps graph replay: this graph is still being captured.");
  TORCH_CHECK(recording_, "torch.mps graph replay: this graph is empty. Capture into it first.");
  for (const auto& call : recording_->calls) {
    stand_in::repeat(call);
  }
  replays_++;
}

// The bindings then call replay().
std::shared_ptr<const MPSCommandGraphReplay> MPSCommandGraph::tryCheck() const {
  return nullptr;
}

void MPSCommandGraph::submit(std::shared_ptr<const MPSCommandGraphReplay> /*replay*/) {}

void MPSCommandGraph::reset() {
  stand_in::note("reset");
  TORCH_CHECK(!capture_, "torch.mps graph: reset() was called while the graph is being captured.");
  recording_.reset();
}

MPSCommandGraphPool MPSCommandGraph::pool() const {
  TORCH_CHECK(pool_, "torch.mps graph: pool() was called before a capture.");
  return *pool_;
}

static c10::impl::GenericDict newDescription() {
  return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get());
}

c10::impl::GenericDict MPSCommandGraph::stats() const {
  auto stats = newDescription();
  stats.insert("kernels", static_cast<int64_t>(recording_ ? recording_->calls.size() : 0));
  stats.insert("replays", static_cast<int64_t>(replays_));
  return stats;
}

// Of its own replays alone.
size_t MPSCommandGraph::overwrites() const {
  return replays_;
}

bool MPSCommandGraph::keeps(const TensorBase&) const {
  return false;
}

std::vector<std::pair<TensorBase, std::string>> MPSCommandGraph::resultsInUse(bool (*)(const c10::TensorImpl&)) const {
  return {};
}

bool isAllocatedInCapture(const TensorBase&) {
  return false;
}

c10::impl::GenericDict MPSCommandGraph::dump() const {
  c10::impl::GenericList buffers(c10::AnyType::get());
  c10::impl::GenericList steps(c10::AnyType::get());
  for (size_t i = 0; recording_ && i < recording_->calls.size(); i++) {
    auto buffer = newDescription();
    buffer.insert("bytes", 16);
    buffer.insert("memory", "pool");
    buffers.push_back(buffer);
    auto use = newDescription();
    use.insert("buffer", static_cast<int64_t>(i));
    use.insert("offset", 0);
    use.insert("access", "bind");
    c10::impl::GenericList uses(c10::AnyType::get());
    uses.push_back(use);
    auto step = newDescription();
    step.insert("kind", "kernel");
    step.insert("op", recording_->calls[i].op.schema().name());
    step.insert("threads", std::vector<int64_t>{4, 1, 1});
    step.insert("buffers", uses);
    steps.push_back(step);
  }
  auto dump = newDescription();
  dump.insert("buffers", buffers);
  dump.insert("steps", steps);
  return dump;
}

MPSCommandGraphPool newGraphPool() {
  static std::atomic<uint64_t> next{1};
  return {0, next++};
}

bool isCurrentStreamCapturing() {
  return stand_in::underway && worksForCapture();
}

void setGradientTarget(MPSGradientTarget) {}

void setProgramLine(MPSProgramFrame (*)(), std::string (*)(const MPSProgramFrame&)) {}

static size_t executable_limit = 1024;
static bool executables_are_cached = false;

c10::impl::GenericDict describeExecutableCache() {
  auto counts = newDescription();
  for (const char* name : {"hits", "misses", "evictions", "entries"}) {
    counts.insert(name, static_cast<int64_t>(counts.size() + 1));
  }
  auto by_key = newDescription();
  by_key.insert("add:f32[4]", counts);
  c10::impl::GenericList inputs(c10::AnyType::get());
  inputs.push_back(c10::ivalue::Tuple::create(std::vector<int64_t>{4}, "float32"));
  auto entry = newDescription();
  entry.insert("key", "add:f32[4]");
  entry.insert("inputs", inputs);
  entry.insert("hits", 1);
  c10::impl::GenericList entries(c10::AnyType::get());
  entries.push_back(entry);
  auto cache = newDescription();
  cache.insert("limit", static_cast<int64_t>(executable_limit));
  cache.insert("counts", by_key);
  cache.insert("entries", entries);
  return cache;
}

void clearExecutableCache() {
  stand_in::note("clear executables");
}

void setExecutableCacheLimit(size_t limit) {
  executable_limit = limit;
}

void setExecutableCacheEnabled(bool enabled) {
  executables_are_cached = enabled;
}

bool isExecutableCacheEnabled() {
  return executables_are_cached;
}

} // namespace at::mps

namespace stand_in {

std::vector<Call>* recording() {
  return at::mps::isCurrentStreamCapturing() ? &underway.load()->recording->calls : nullptr;
}

void hostReads() {
  if (!recording()) {
    return;
  }
  TORCH_CHECK(
      underway.load()->freeze_host_reads,
      "torch.mps graph capture: the host reads a tensor of the device, which would be frozen.");
  TORCH_WARN("torch.mps graph capture: what the host read is frozen.");
}

} // namespace stand_in
