#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/native/mps/OperationUtils.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_set>

namespace at::mps {

using namespace native::mps; // dispatch_sync_with_rethrow(), until it moved to at::mps

// The capture underway; its observer is captureUnderway().
static MPSMutex<MPSLockRank::UNDERWAY> underway_mutex;
static MPSGraphCapture* underway = nullptr;

// Of the last capture that this thread began.
static thread_local CallbackHandle last_observer = INVALID_CALLBACK_HANDLE;

// Only the thread that has the callback can remove it. On other threads observeInputs() does.
static void removeObserver(CallbackHandle observer) {
  if (isObserved(observer)) {
    removeCallback(observer);
  }
}

namespace {

// Marks that observeInputs() called beginOperator(), so that observeOutputs() must call endOperator().
struct Running final : ObserverContext {
  Running(const RecordFunction& function, MPSHostAccess* caller) : access(function, caller) {}
  MPSHostAccess access;
};

// Of this thread, the caller's first.
thread_local std::vector<MPSHostAccess*> accesses_now;

void observe(c10::ArrayRef<const IValue> values, MPSGraphCapture::Seen seen) {
  // Asking a tensor of a subclass may run Python, so it is done before the capture is locked.
  c10::SmallVector<Tensor, 8> used;
  for (const auto& value : values) {
    forEachTensor(value, [&](const Tensor& tensor) {
      if (tensor.defined() && tensor.is_mps() && tensor.has_storage()) {
        used.push_back(tensor);
      }
    });
  }
  if (const MPSCaptureUnderway capture; capture) {
    for (const auto& tensor : used) {
      capture->watchTensor(tensor, seen);
    }
  }
}

void beginOnHost(const RecordFunction& function, const MPSHostAccess& access) {
  if (access.uses.empty()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (capture) {
    capture->refuseAt(capture->hostComputations().begin(function, access));
  }
}

void endOnHost(const RecordFunction& function, const MPSHostAccess& access) {
  using Change = MPSHostComputations::Change;
  std::vector<Change> changes;
  if (const MPSCaptureUnderway capture; capture) {
    if (!access.uses.empty()) {
      capture->refuseAt(capture->hostComputations().end(function, access));
    }
    changes = capture->hostComputations().changesOf(function, access);
  }
  if (changes.empty()) {
    return;
  }
  const char* name = MPSSubmission::current().outermost_operator;
  const bool is_refusable = std::any_of(
      changes.begin(), changes.end(), [](const Change& change) { return change.is_computed || change.is_written; });
  // takes the interpreter's lock, so that the capture must not be held
  const bool has_failed = function.outputs().size() < function.num_outputs();
  const std::string line = is_refusable && !has_failed ? programLine() : "";
  if (const MPSCaptureUnderway capture; capture) {
    capture->refuseAt(capture->hostComputations().apply(changes, name ? name : function.name(), line));
  }
}

// Says in errors where the tensors that are new were used.
void nameUses(const RecordFunction& function) {
  if (const MPSCaptureUnderway capture; !capture || !capture->hasUnnamed()) {
    return;
  }
  const char* name = MPSSubmission::current().outermost_operator;
  // takes the interpreter's lock, so that the capture must not be held
  const std::string line = programLine();
  if (const MPSCaptureUnderway capture; capture) {
    capture->nameUses((name ? name : function.name()) + (line.empty() ? line : " at " + line));
  }
}

// Says in debug dumps where the steps that are new were submitted.
void nameSteps(bool by_operator) {
  if (const MPSCaptureUnderway capture; !capture || !capture->lacksLines()) {
    return;
  }
  // takes the interpreter's lock, so that the capture must not be held
  const std::string line = by_operator ? programLine() : "";
  if (const MPSCaptureUnderway capture; capture) {
    capture->setLines(line);
  }
}

// The forward pass of a leaf may have run before the block.
void watchGradientTarget(const RecordFunction& function) {
  if (std::strcmp(function.name(), "torch::autograd::AccumulateGrad") != 0) {
    return;
  }
  const TensorBase target = gradientTarget();
  if (!target.defined() || !target.is_mps() || !target.has_storage()) {
    return;
  }
  if (const MPSCaptureUnderway capture; capture) {
    capture->watchTensor(target, MPSGraphCapture::Seen::GIVEN);
  }
  nameUses(function);
}

std::unique_ptr<ObserverContext> observeInputs(const RecordFunction& function) {
  if (last_observer != captureUnderway() && isObserved(last_observer)) {
    // another thread has ended the capture
    removeCallback(last_observer);
    return nullptr;
  }
  if (function.scope() == RecordScope::BACKWARD_FUNCTION) {
    watchGradientTarget(function);
    return nullptr;
  }
  if (!function.operator_name()) {
    return nullptr; // a profiler's range: may end out of turn, or on another thread
  }
  observe(function.inputs(), MPSGraphCapture::Seen::GIVEN);
  if (accesses_now.empty()) {
    nameSteps(/*by_operator=*/false); // of a replay in the block
  }
  auto running = std::make_unique<Running>(function, accesses_now.empty() ? nullptr : accesses_now.back());
  accesses_now.push_back(&running->access);
  beginOperator(function);
  beginOnHost(function, running->access);
  nameUses(function);
  return running;
}

void observeOutputs(const RecordFunction& function, ObserverContext* context) {
  if (context) {
    accesses_now.pop_back();
    endOnHost(function, static_cast<Running*>(context)->access);
    endOperator();
    nameSteps(/*by_operator=*/true);
  }
  const auto& outputs = function.outputs();
  observe(c10::ArrayRef<const IValue>(outputs.data(), outputs.size()), MPSGraphCapture::Seen::RETURNED);
}

} // namespace

MPSGraphCapture::MPSGraphCapture(bool freeze_host_reads,
                                 MPSGraphPool pool,
                                 std::vector<Generator> generators,
                                 bool check_input_liveness)
    : freeze_host_reads_(freeze_host_reads),
      generators_(std::move(generators)),
      check_input_liveness_(check_input_liveness),
      recording_(std::make_shared<MPSRecording>()) {
  recording_->pool.emplace(pool);
  recording_->overwrites.emplace(pool);
  const auto* allocator = getIMPSAllocator();
  allocator->beginAllocateToPool(pool, [this] { return isOfThisSubmission(); });
  allocator->setBufferObserver([this](const void* buffer) { observeBuffer(buffer); });
}

MPSGraphCapture::~MPSGraphCapture() {
  recordNoThread();
  stop();
}

void MPSGraphCapture::recordThisThread() {
  removeObserver(last_observer); // of a capture that another thread has ended
  // sees the tensors as the caller passes and gets them: kernels get views and temporaries of them
  operator_observer_ = addThreadLocalCallback(RecordFunctionCallback(&observeInputs, &observeOutputs)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION}));
  last_observer = operator_observer_;
  std::lock_guard lock(underway_mutex);
  underway = this;
  setCaptureUnderway(operator_observer_);
}

void MPSGraphCapture::recordNoThread() {
  {
    std::lock_guard lock(underway_mutex);
    if (underway != this) {
      return;
    }
    underway = nullptr;
    setCaptureUnderway(INVALID_CALLBACK_HANDLE);
  }
  removeObserver(operator_observer_);
}

bool MPSGraphCapture::isOfThisSubmission() const {
  const CallbackHandle observer = operator_observer_;
  return observer != INVALID_CALLBACK_HANDLE && MPSSubmission::current().capture == observer;
}

bool MPSGraphCapture::records() {
  const auto submission = MPSSubmission::current();
  if (!submission.is_known) {
    refuse(
        "a thread that does not work for the capture ran a block of dispatch_sync() on the stream's queue, so the capture "
        "can't tell which thread submitted the block. Submit it with at::native::mps::dispatch_sync_with_rethrow()");
  }
  return submission.capture != 0 && submission.capture == operator_observer_;
}

void MPSGraphCapture::stop() {
  if (std::exchange(stopped_, true)) {
    return;
  }
  const auto* allocator = getIMPSAllocator();
  allocator->setBufferObserver(nullptr);
  allocator->endAllocateToPool();
}

// Memory of the pool is reused within the capture, so it is not pinned. Everything else that a step uses is pinned as
// long as the graph lives: blocks from before the capture, scalars that the host wrote, and blocks for which the pool
// had no room.
void MPSGraphCapture::observeBuffer(const void* buffer) {
  if (!isOfThisSubmission()) {
    return;
  }
  const bool shared_over_time = getIMPSAllocator()->isPoolBuffer(buffer);
  {
    std::lock_guard lock(mutex_);
    allocated_here_[buffer] = shared_over_time;
  }
  keepBuffer(buffer);
}

void MPSGraphCapture::keepBuffer(const void* buffer) {
  {
    std::lock_guard lock(mutex_);
    const auto allocated = allocated_here_.find(buffer);
    const bool lies_in_pool = allocated != allocated_here_.end() && allocated->second;
    if (lies_in_pool || recording_->pinned.contains(buffer)) {
      return;
    }
  }
  const auto* allocator = getIMPSAllocator();
  if (!allocator->pin(buffer)) {
    return; // not a block of the allocator: the steps retain the buffer itself
  }
  bool adopted = false;
  {
    std::lock_guard lock(mutex_);
    adopted = recording_->pinned.adopt(buffer);
  }
  if (!adopted) {
    allocator->unpin(buffer);
  }
}

void MPSGraphCapture::watchTensor(const TensorBase& tensor, Seen seen) {
  const void* data = tensor.storage().data();
  if (data) {
    keepBuffer(data);
  } else if (tensor.key_set().has(c10::DispatchKey::Python)) {
    return; // operators are given the tensors that it wraps
  }
  std::lock_guard lock(mutex_);
  const auto [position, is_new] = watched_places_.try_emplace(tensor.unsafeGetTensorImpl(), watched_.size());
  using Kind = MPSWatchedTensor::Kind;
  // A tensor without memory belongs to the block if it was first seen as a result.
  const bool is_of_block = data ? allocated_here_.count(data) > 0 : seen == Seen::RETURNED;
  const Kind kind = is_of_block ? Kind::RESULT : check_input_liveness_ ? Kind::LIVE_INPUT : Kind::INPUT;
  if (is_new) {
    watched_.emplace_back(tensor, kind, /*is_from_before=*/seen != Seen::RETURNED && !is_of_block);
    if (seen == Seen::GIVEN && !is_of_block) {
      unnamed_.push_back(watched_.size() - 1);
    }
    const auto* impl = tensor.unsafeGetTensorImpl();
    const auto& counter = impl->version_counter();
    if (counter.enabled()) { // not that of an inference tensor
      versions_.push_back({impl, counter, counter.current_version(), kind == Kind::RESULT});
    }
    return;
  }
  auto& known = watched_[position->second];
  if (known.moved()) {
    refuseMove(known);
    known = MPSWatchedTensor(tensor, kind, /*is_from_before=*/false);
  }
}

bool MPSGraphCapture::hasUnnamed() {
  std::lock_guard lock(mutex_);
  return !unnamed_.empty() || host_computations_.hasUnnamed();
}

void MPSGraphCapture::nameUses(const std::string& use) {
  std::lock_guard lock(mutex_);
  for (const auto position : unnamed_) {
    watched_[position].setUse(use);
  }
  unnamed_.clear();
  host_computations_.nameUses(use);
}

bool MPSGraphCapture::lacksLines() {
  if (!wants_lines_) {
    return false; // set before the capture records a thread, so without the lock
  }
  std::lock_guard lock(mutex_);
  return recording_->lines.size() < recording_->steps.size();
}

void MPSGraphCapture::setLines(const std::string& line) {
  std::lock_guard lock(mutex_);
  recording_->lines.resize(recording_->steps.size(), line);
}

// Steps before the move use the old memory, those after it the new. Running the block again would do the same to a
// tensor made in it, but not to one from before.
void MPSGraphCapture::refuseMove(const MPSWatchedTensor& tensor) {
  const void* before = tensor.record().data(); // null for an empty tensor, which out= may have filled
  if (before && allocated_here_.count(before) == 0 && refusal_.empty()) {
    refusal_ = "the block changed " + tensor.record().describe() + " which " + tensor.record().describeChange() +
        ". Do that before the capture";
  }
}

void MPSGraphCapture::checkStatus(const Tensor& status, const std::string& message) {
  keepTensor(status);
  recordStep(MPSStatusStep{(id<MTLBuffer>)status.storage().data(),
                           status.storage_offset() * status.itemsize(),
                           std::make_shared<const std::string>(message)});
}

bool MPSGraphCapture::isRegistered(const GeneratorImpl* generator) const {
  return std::any_of(generators_.begin(), generators_.end(), [&](const Generator& registered) {
    return registered.unsafeGetGeneratorImpl() == generator;
  });
}

void MPSGraphCapture::keepPart(std::shared_ptr<const MPSRecording> part) {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(
      !part->usesPool(recording_->pool->pool()),
      "torch.mps graph capture: the block replays a graph whose memory is in the pool of this capture. The replay "
      "would overwrite memory of the block. Capture one of the two graphs with another pool.");
  recording_->parts.push_back(std::move(part));
}

id<MTLComputeCommandEncoder> MPSGraphCapture::newRecordingEncoder(id<MTLComputeCommandEncoder> encoder) {
  return (id<MTLComputeCommandEncoder>)[[MPSRecordingEncoder alloc] initWithEncoder:encoder recorder:this];
}

void MPSGraphCapture::recordGraphRun(MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets) {
  MPSGraphRunStep step;
  step.graph = graph;
  // callers may go on to change a mutable dictionary
  step.feeds = [[feeds copy] autorelease];
  step.targets = [[targets copy] autorelease];
  recordStep(std::move(step));
}

void MPSGraphCapture::recordKernel(MPSKernelStep step) {
  recordStep(std::move(step));
}

void MPSGraphCapture::recordCopy(MPSCopyStep copy) {
  if (const auto source = MPSSubmission::current().host_source) {
    recordStep(MPSHostRefreshStep{source, copy.destination, copy.length, copy.destination_offset});
  } else {
    useBuffer(copy.source.get());
    recordStep(std::move(copy));
  }
}

void MPSGraphCapture::recordStep(MPSCommandStep step) {
  const auto submission = MPSSubmission::current();
  const char* name = submission.innermost_operator ? submission.innermost_operator : "";
  std::lock_guard lock(mutex_);
  recording_->steps.push_back(std::move(step));
  recording_->operators.emplace_back(name);
}

void MPSGraphCapture::useBuffer(id<MTLBuffer> buffer) {
  keepBuffer(buffer);
}

void MPSGraphCapture::refreshBytes(std::vector<uint8_t> bytes, std::shared_ptr<MPSHostRefresh> refresh) {
  std::lock_guard lock(mutex_);
  expected_bytes_.emplace_back(std::move(bytes), std::move(refresh));
}

std::shared_ptr<const MPSRefreshedBytes> MPSGraphCapture::refreshOf(const void* bytes, size_t length) {
  std::lock_guard lock(mutex_);
  const auto expected = std::find_if(expected_bytes_.begin(), expected_bytes_.end(), [&](const auto& entry) {
    return entry.first.size() == length && std::memcmp(entry.first.data(), bytes, length) == 0;
  });
  if (expected == expected_bytes_.end()) {
    return nullptr;
  }
  auto refreshed = std::make_shared<MPSRefreshedBytes>();
  refreshed->refresh = std::move(expected->second);
  refreshed->length = length;
  expected_bytes_.erase(expected);
  return refreshed;
}

void MPSGraphCapture::refuse(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = reason + inOperator();
  }
}

void MPSGraphCapture::refuseAt(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = reason;
  }
}

// A CPU tensor that only the graph has holds the same values in each replay: they are given to the device once.
static void keepConstants(MPSRecording& recording, id<MTLDevice> device) {
  const auto sourceOf = [](const MPSCommandStep& step) -> MPSHostSource* {
    const auto* refresh = std::get_if<MPSHostRefreshStep>(&step);
    return refresh ? dynamic_cast<MPSHostSource*>(refresh->refresh.get()) : nullptr;
  };
  std::unordered_map<const StorageImpl*, std::unordered_set<const MPSHostSource*>> sources;
  for (const auto& step : recording.steps) {
    if (const auto* source = sourceOf(step)) {
      sources[source->storage().unsafeGetStorageImpl()].insert(source);
    }
  }
  for (auto& step : recording.steps) {
    auto* source = sourceOf(step);
    const size_t others = source ? sources.at(source->storage().unsafeGetStorageImpl()).size() : 0;
    if (!source || source->storage().use_count() > others * MPSHostSource::storage_references) {
      continue;
    }
    const auto refresh = std::get<MPSHostRefreshStep>(step);
    id<MTLBuffer> buffer = [[device newBufferWithLength:refresh.length
                                                options:MTLResourceStorageModeShared] autorelease];
    if (buffer) {
      source->write([buffer contents]);
      step = MPSCopyStep{buffer, refresh.destination, refresh.length, 0, refresh.offset};
      recording.constants++;
    }
  }
}

// Compiles the graph runs.
static void compile(MPSRecording& recording, id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor) {
  @autoreleasepool {
    NSMutableSet* distinct = [NSMutableSet set];
    for (auto& step : recording.steps) {
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
    recording.executables = distinct.allObjects;
  }
}

std::vector<c10::VariableVersion> MPSGraphCapture::writtenOf(const std::vector<Version>& versions) {
  std::vector<c10::VariableVersion> written;
  for (const auto& version : versions) {
    if (version.isWritten()) {
      written.push_back(version.counter);
    }
  }
  return written;
}

void MPSGraphCapture::addWrittenGradients(std::vector<MPSWrittenGradient>& gradients,
                                          const std::vector<MPSWatchedTensor>& watched,
                                          const std::vector<Version>& versions) {
  using Kind = MPSWrittenGradient::Kind;
  std::unordered_map<const TensorImpl*, const Version*> written;
  for (const auto& version : versions) {
    if (version.isWritten()) {
      written.emplace(version.tensor, &version);
    }
  }
  for (const auto& tensor : watched) {
    const auto living = tensor.record().living();
    const auto version =
        living && !tensor.isResult() ? written.find(living->grad().unsafeGetTensorImpl()) : written.end();
    if (version != written.end()) {
      const Kind made = written.count(living.get()) > 0 ? Kind::USED : Kind::MADE;
      gradients.emplace_back(living, version->second->is_of_result ? made : Kind::WRITTEN);
    }
  }
}

std::shared_ptr<const MPSRecording> MPSGraphCapture::finish(id<MTLDevice> device,
                                                            MPSGraphCompilationDescriptor* descriptor) {
  auto recording = std::make_shared<MPSRecording>();
  std::vector<MPSWatchedTensor> watched;
  std::vector<Version> versions;
  {
    std::lock_guard lock(mutex_);
    std::swap(recording, recording_); // operators of other threads may still report
    std::swap(watched, watched_);
    std::swap(versions, versions_);
    watched_places_.clear();
    unnamed_.clear();
  }
  refuseAt(host_computations_.endBlock());
  // not under the lock: looking at a tensor may turn out to be its last use, which frees memory
  const auto first_moved =
      std::partition(watched.begin(), watched.end(), [](const auto& tensor) { return !tensor.changed(); });
  {
    std::lock_guard lock(mutex_);
    std::for_each(first_moved, watched.end(), [&](const auto& tensor) { refuseMove(tensor); });
    if (unrecorded_draws_ != 0 && refusal_.empty()) {
      refusal_ = "random numbers were drawn in a way that a replay can't repeat. Draw them before the capture";
    }
    if (!expected_bytes_.empty() && refusal_.empty()) {
      refusal_ =
          "the offset of a generator advanced, but no kernel received the seed and the offset in one setBytes: call, so a "
          "replay can't repeat the draw. Set the offset or draw the numbers before the capture";
    }
    TORCH_CHECK(refusal_.empty(), "torch.mps graph capture: ", refusal_, ". The capture was dropped.");
  }
  watched.erase(first_moved, watched.end());
  std::vector<MPSWrittenGradient> gradients;
  for (const auto& part : recording->parts) {
    // those that the block dropped or replaced afterwards are not the part's any more
    std::copy_if(part->written.gradients().begin(),
                 part->written.gradients().end(),
                 std::back_inserter(gradients),
                 [](const auto& gradient) { return gradient.isCurrent(); });
  }
  addWrittenGradients(gradients, watched, versions);
  // Drops the weak references to dead tensors. That frees their counters, and set() sees which ones nobody else holds.
  recording->watched.set(std::move(watched), host_computations_.takeInputs());
  auto written = writtenOf(versions);
  versions.clear();
  recording->written.set(std::move(written), std::move(gradients));
  @autoreleasepool {
    keepConstants(*recording, device);
  }
  // on the queue, where eager work of other threads encodes the same MPSGraphs
  dispatch_sync_with_rethrow(getCurrentMPSStream()->queue(), ^() {
    compile(*recording, device, descriptor);
  });
  return recording;
}

MPSCaptureUnderway::MPSCaptureUnderway() {
  if (captureUnderway() == INVALID_CALLBACK_HANDLE) {
    return; // without the stream, which makes the device
  }
  const CallbackHandle observer = MPSSubmission::current().capture;
  if (observer == INVALID_CALLBACK_HANDLE) {
    return;
  }
  lock_ = std::unique_lock(underway_mutex);
  // it may have ended, and another one begun, in between
  if (captureUnderway() == observer) {
    capture_ = underway;
  }
}

} // namespace at::mps
