#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <c10/core/GradMode.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

namespace at::mps {

// The observer of the last capture that this thread began.
static thread_local CallbackHandle last_observer = INVALID_CALLBACK_HANDLE;

// The operators that this thread runs, the caller's first.
static thread_local std::vector<const RecordFunction*> operators_now;

// The submitter of the block that this thread runs, if the block is part of a capture.
static thread_local MPSSubmission* running_submission = nullptr;

// Only the thread that has the callback can remove it. On other threads observeInputs() does.
static void removeObserver(CallbackHandle observer) {
  if (isObserved(observer)) {
    removeCallback(observer);
  }
}

namespace {

// The access of the operator that this thread runs.
thread_local MPSHostAccess* access_now = nullptr;

// An operator that this thread runs.
struct Running final : ObserverContext {
  explicit Running(const RecordFunction& function) : access(function, access_now) {
    operators_now.push_back(&function);
    access_now = &access;
  }
  ~Running() override {
    operators_now.pop_back();
    access_now = access.caller;
  }

  MPSHostAccess access;
};

using Change = MPSHostComputations::Change;
using Tensors = c10::SmallVector<const Tensor*, 8>;

// Those of the device. The function keeps them. Asking a tensor of a subclass may run Python, so this is done before
// the capture is locked.
Tensors tensorsOf(c10::ArrayRef<const IValue> values) {
  Tensors tensors;
  for (const auto& value : values) {
    forEachTensor(value, [&](const Tensor& tensor) {
      if (tensor.defined() && tensor.is_mps() && tensor.has_storage()) {
        tensors.push_back(&tensor);
      }
    });
  }
  return tensors;
}

void applyOnHost(const RecordFunction& function, const std::vector<Change>& changes) {
  const char* name = MPSSubmission::current().outermost_operator;
  const bool is_refusable = std::any_of(
      changes.begin(), changes.end(), [](const Change& change) { return change.is_computed || change.is_written; });
  // takes the interpreter's lock, so that the capture must not be held
  const bool has_failed = function.outputs().size() < function.num_outputs();
  const std::string line = is_refusable && !has_failed ? programLine() : "";
  if (const MPSCaptureLock capture; capture) {
    capture->refuseAt(capture->hostComputations().apply(changes, name ? name : function.name(), line));
  }
}

// Says in errors where the inputs that are new were used.
void nameUses(const RecordFunction& function) {
  const char* name = MPSSubmission::current().outermost_operator;
  // takes the interpreter's lock, so that the capture must not be held
  const auto place =
      std::make_shared<const MPSProgramPlace>(MPSProgramPlace{name ? name : function.name(), programFrame()});
  if (const MPSCaptureLock capture; capture) {
    capture->nameUses(place);
  }
}

// Says in debug dumps where the steps that are new were submitted.
void nameSteps(bool by_operator) {
  // takes the interpreter's lock, so that the capture must not be held
  const auto frame = by_operator ? programFrame() : nullptr;
  if (const MPSCaptureLock capture; capture) {
    capture->setLines(frame);
  }
}

// The forward pass of a leaf may have run before the block.
void watchGradientTarget(const RecordFunction& function) {
  if (std::strcmp(function.name(), "torch::autograd::AccumulateGrad") != 0) {
    return;
  }
  const Tensor target(gradientTarget());
  if (!target.defined() || !target.is_mps() || !target.has_storage()) {
    return;
  }
  bool has_unnamed = false;
  if (const MPSCaptureLock capture; capture) {
    has_unnamed = capture->watchTensors({&target}, MPSCommandGraphCapture::Seen::GIVEN);
  }
  if (has_unnamed) {
    nameUses(function);
  }
}

// Without what an observer did not see, the graph may be wrong.
void refuseAfter(const RecordFunction& function, const std::exception& error) {
  if (const MPSCaptureLock capture; capture) {
    capture->refuseAt(c10::str("the capture could not observe ", function.name(), ": ", error.what()));
  }
}

std::unique_ptr<ObserverContext> beginOperator(const RecordFunction& function) {
  if (function.scope() == RecordScope::BACKWARD_FUNCTION) {
    watchGradientTarget(function);
    return nullptr;
  }
  if (function.num_outputs() == 0 && !function.operator_name()) {
    return nullptr; // a profiler's range: may end out of turn, or on another thread
  }
  const auto tensors = tensorsOf(function.inputs());
  const bool is_outermost = !access_now;
  auto running = std::make_unique<Running>(function);
  bool has_unnamed = false;
  bool lacks_lines = false;
  if (const MPSCaptureLock capture; capture) {
    has_unnamed = capture->watchTensors(tensors, MPSCommandGraphCapture::Seen::GIVEN);
    lacks_lines = is_outermost && capture->lacksLines();
    if (!running->access.uses.empty()) {
      capture->refuseAt(capture->hostComputations().begin(function, running->access));
      has_unnamed |= capture->hostComputations().hasUnnamed();
    }
  }
  if (lacks_lines) {
    nameSteps(/*by_operator=*/false); // of a replay in the block
  }
  if (has_unnamed) {
    nameUses(function);
  }
  return running;
}

std::unique_ptr<ObserverContext> observeInputs(const RecordFunction& function) {
  if (last_observer != active_capture.observer && isObserved(last_observer)) {
    // another thread has ended the capture
    removeCallback(last_observer);
    return nullptr;
  }
  try {
    return beginOperator(function);
  } catch (const std::exception& error) {
    refuseAfter(function, error); // RecordFunction would log it and go on
    return nullptr;
  }
}

void endOperator(const RecordFunction& function, const Running* running) {
  const auto& outputs = function.outputs();
  const auto tensors = tensorsOf(c10::ArrayRef<const IValue>(outputs.data(), outputs.size()));
  std::vector<Change> changes;
  bool has_unnamed = false;
  bool lacks_lines = false;
  if (const MPSCaptureLock capture; capture) {
    if (running) {
      if (!running->access.uses.empty()) {
        capture->refuseAt(capture->hostComputations().end(function, running->access));
      }
      changes = capture->hostComputations().changesOf(function, running->access);
      lacks_lines = capture->lacksLines();
    }
    has_unnamed = capture->watchTensors(tensors, MPSCommandGraphCapture::Seen::RETURNED);
  }
  if (has_unnamed) {
    nameUses(function);
  }
  if (!changes.empty()) {
    applyOnHost(function, changes);
  }
  if (lacks_lines) {
    nameSteps(/*by_operator=*/true);
  }
}

void observeOutputs(const RecordFunction& function, ObserverContext* context) {
  try {
    endOperator(function, static_cast<Running*>(context));
  } catch (const std::exception& error) {
    refuseAfter(function, error);
  }
}

} // namespace

MPSCommandGraphCapture::MPSCommandGraphCapture(bool freeze_host_reads,
                                               MPSCommandGraphPool pool,
                                               bool draws_from_default_only,
                                               bool check_input_liveness)
    : freeze_host_reads_(freeze_host_reads),
      draws_from_default_only_(draws_from_default_only),
      check_input_liveness_(check_input_liveness),
      recording_(std::make_shared<MPSCommandGraphRecording>()) {
  recording_->pool.emplace(pool);
  recording_->overwrites.emplace(pool);
  number_ = getIMPSAllocator()->beginAllocateToPool(pool, &MPSCommandGraphCapture::records);
  active_capture.capture = this;
  detail::capture_underway = true;
}

MPSCommandGraphCapture::~MPSCommandGraphCapture() {
  if (!stopped_) {
    recordNoThread();
    stop();
  }
}

void MPSCommandGraphCapture::recordThisThread() {
  removeObserver(last_observer); // of a capture that another thread has ended
  // sees the tensors as the caller passes and gets them: kernels get views and temporaries of them
  last_observer = addThreadLocalCallback(RecordFunctionCallback(&observeInputs, &observeOutputs)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION}));
  std::lock_guard lock(active_capture.mutex);
  active_capture.observer = last_observer;
}

void MPSCommandGraphCapture::recordNoThread() {
  CallbackHandle observer = INVALID_CALLBACK_HANDLE;
  {
    std::lock_guard lock(active_capture.mutex);
    observer = active_capture.observer.exchange(observer);
  }
  removeObserver(observer);
}

bool MPSCommandGraphCapture::records() {
  // The submitter may have worked for an earlier capture.
  const CallbackHandle observer = MPSSubmission::currentCapture();
  return observer != INVALID_CALLBACK_HANDLE && observer == active_capture.observer;
}

void MPSCommandGraphCapture::stop() {
  stopped_ = true;
  active_capture.capture = nullptr;
  detail::capture_underway = false;
  const auto pinned = getIMPSAllocator()->endAllocateToPool();
  std::lock_guard lock(mutex_);
  recording_->pinned.adopt(pinned);
}

// Everything that a step uses is kept as long as the graph lives: the pool has the memory that the block allocated,
// which is reused within the capture. The allocator pins what the block allocated elsewhere. The rest is from before
// the block.
void MPSCommandGraphCapture::keepBuffer(const void* buffer) {
  std::lock_guard lock(mutex_);
  recording_->pinned.pin(buffer);
}

// True if the tensor is known and has the memory that it had, which is kept already.
static bool isUnmoved(const MPSCommandGraphInputs::Tensor* known, const TensorBase& tensor) {
  return known && known->was.isAt(*tensor.storage().unsafeGetStorageImpl());
}

void MPSCommandGraphCapture::watch(const TensorBase& tensor, Seen seen) {
  auto& inputs = recording_->inputs;
  auto* known = inputs.find(tensor.unsafeGetTensorImpl());
  if (isUnmoved(known, tensor)) {
    known->has_gradients |= c10::GradMode::is_enabled();
    return;
  }
  const void* data = tensor.storage().data();
  if (!data && tensor.key_set().has(c10::DispatchKey::Python)) {
    return; // operators are given the tensors that it wraps
  }
  using Kind = MPSCommandGraphInputs::Kind;
  const uint64_t allocated_in = data ? getIMPSAllocator()->captureOf(data) : 0;
  // A tensor without memory belongs to the block if it was first seen as a result.
  const bool is_of_block = data ? allocated_in == number_ : seen == Seen::RETURNED;
  if (data && !is_of_block) {
    recording_->pinned.pin(data);
  }
  if (known) {
    refuseMove(*known);
    known->was = MPSUsedTensor(tensor);
    if (known->kind != Kind::INPUT) { // Such a one had no memory.
      known->kind = is_of_block ? Kind::RESULT : Kind::VIEW;
    }
  } else {
    // An operator may return a tensor that existed before the block and that it was not given.
    const bool is_view = seen == Seen::RETURNED && inputs.hasStorage(tensor.storage().unsafeGetStorageImpl());
    const Kind kind = is_of_block ? Kind::RESULT : is_view ? Kind::VIEW : Kind::INPUT;
    const bool needs_name = kind == Kind::RESULT ? names_results_ : seen != Seen::BOUND && kind == Kind::INPUT;
    known = &inputs.add(tensor, kind, needs_name);
  }
  known->is_counted = is_of_block || recording_->pinned.contains(data);
  known->is_of_graph = allocated_in != 0 || !data; // Nothing can be given to an empty tensor.
  known->has_gradients = c10::GradMode::is_enabled();
}

void MPSCommandGraphCapture::watchTensor(const TensorBase& tensor) {
  std::lock_guard lock(mutex_);
  watch(tensor, Seen::BOUND);
}

void MPSCommandGraphCapture::useTensor(const TensorBase& tensor) {
  std::lock_guard lock(mutex_);
  if (!MPSSubmission::isInOperator()) {
    watch(tensor, Seen::BOUND);
  } else if (!isUnmoved(recording_->inputs.find(tensor.unsafeGetTensorImpl()), tensor)) {
    recording_->pinned.pin(tensor.storage().data());
  }
}

bool MPSCommandGraphCapture::watchTensors(c10::ArrayRef<const Tensor*> tensors, Seen seen) {
  std::lock_guard lock(mutex_);
  for (const auto* tensor : tensors) {
    watch(*tensor, seen);
  }
  return recording_->inputs.hasUnnamed();
}

void MPSCommandGraphCapture::nameUses(const std::shared_ptr<const MPSProgramPlace>& place) {
  std::lock_guard lock(mutex_);
  recording_->inputs.nameUses(place);
  host_computations_.nameUses(place);
}

bool MPSCommandGraphCapture::lacksLines() {
  if (!wants_lines_) {
    return false; // set before the capture records a thread, so without the lock
  }
  std::lock_guard lock(mutex_);
  return recording_->lines.size() < recording_->origins.size();
}

void MPSCommandGraphCapture::setLines(const MPSProgramFrame& frame) {
  std::lock_guard lock(mutex_);
  recording_->lines.resize(recording_->origins.size(), frame);
}

// Steps before the move use the old memory, those after it the new. Running the block again would do the same to a
// tensor made in it, but not to one from before.
void MPSCommandGraphCapture::refuseMove(const MPSCommandGraphInputs::Tensor& tensor) {
  const bool had_memory = tensor.was.data() != nullptr; // out= may fill an empty tensor
  if (had_memory && tensor.kind != MPSCommandGraphInputs::Kind::RESULT && !refusal_) {
    refusal_ = [was = tensor.was, change = tensor.was.describeChange()] {
      return "the block changed " + was.describe() + " which " + change + ". Do that before the capture";
    };
  }
}

void MPSCommandGraphCapture::checkStatus(const Tensor& status, const std::string& message) {
  keepBuffer(status.storage().data());
  recordStep(MPSStatusStep{(id<MTLBuffer>)status.storage().data(),
                           status.storage_offset() * status.itemsize(),
                           std::make_shared<const std::string>(message)});
}

bool MPSCommandGraphCapture::hasAllocated(const void* data) const {
  return getIMPSAllocator()->captureOf(data) == number_;
}

void MPSCommandGraphCapture::checkPool(const MPSCommandGraphRecording& recording) const {
  TORCH_CHECK(
      !recording.usesPool(recording_->pool->pool()),
      "torch.mps graph replay: the memory of the graph is in the pool of a capture that is underway. The replay "
      "would overwrite memory of the block. Replay the graph before or after the capture, or capture one of the "
      "two graphs with another pool.");
}

void MPSCommandGraphCapture::keepPart(std::shared_ptr<const MPSCommandGraphRecording> part) {
  checkPool(*part);
  std::lock_guard lock(mutex_);
  recording_->parts.push_back(std::move(part));
}

id<MTLComputeCommandEncoder> MPSCommandGraphCapture::newRecordingEncoder(id<MTLComputeCommandEncoder> encoder) {
  return (id<MTLComputeCommandEncoder>)[[MPSRecordingEncoder alloc] initWithEncoder:encoder recorder:this];
}

bool MPSCommandGraphCapture::recordGraphRun(MPSStream* stream,
                                            MPSGraph* graph,
                                            NSDictionary* feeds,
                                            NSDictionary* targets) {
  auto run = encodeAsExecutable(stream, graph, feeds, targets);
  if (run.problem) {
    running_submission->problem = run.problem;
    return false;
  }
  recordStep(std::move(run.step));
  return true;
}

MPSKernelStep& MPSCommandGraphCapture::beginKernels() {
  std::lock_guard lock(mutex_);
  open_kernels_ = recording_->steps.size();
  return std::get<MPSKernelStep>(recording_->steps.emplace_back(MPSKernelStep{}));
}

void MPSCommandGraphCapture::recordWork() {
  std::lock_guard lock(mutex_);
  addOrigin(open_kernels_);
}

void MPSCommandGraphCapture::keepObject(id object) {
  {
    std::lock_guard lock(mutex_);
    if (!recording_->objects.try_emplace(object, object).second) {
      return;
    }
  }
  keepBuffer(object);
}

void MPSCommandGraphCapture::recordCopy(MPSCopyStep copy) {
  if (const auto source = MPSSubmission::current().host_source) {
    {
      std::lock_guard lock(mutex_);
      host_sources_.push_back(source);
    }
    recordStep(MPSHostRefreshStep{source, copy.destination, copy.length, copy.destination_offset});
  } else {
    keepObject(copy.source.get());
    recordStep(std::move(copy));
  }
}

void MPSCommandGraphCapture::recordStep(MPSCommandStep step) {
  std::lock_guard lock(mutex_);
  recording_->steps.push_back(std::move(step));
  addOrigin(recording_->steps.size() - 1);
}

void MPSCommandGraphCapture::addOrigin(size_t step) {
  const char* name = MPSSubmission::current().innermost_operator;
  if (name && std::strcmp(name, last_name_) != 0) {
    last_name_ = recording_->names.emplace(name).first->c_str();
  }
  recording_->origins.push_back({step, name ? last_name_ : ""});
}

void MPSCommandGraphCapture::refreshBytes(std::vector<uint8_t> bytes, std::shared_ptr<MPSHostRefresh> refresh) {
  std::lock_guard lock(mutex_);
  expected_bytes_.emplace_back(std::move(bytes), std::move(refresh));
}

std::shared_ptr<const MPSRefreshedBytes> MPSCommandGraphCapture::refreshOf(const void* bytes, size_t length) {
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

void MPSCommandGraphCapture::refuse(const std::string& reason) {
  refuseAt(reason + inOperator());
}

void MPSCommandGraphCapture::refuseAt(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!refusal_ && !reason.empty()) {
    refusal_ = [reason] { return reason; };
  }
}

// A CPU tensor that only the graph has holds the same values in each replay: they are given to the device once.
static void keepConstants(MPSCommandGraphRecording& recording,
                          const MPSHostComputations& computations,
                          id<MTLDevice> device) {
  for (auto& step : recording.steps) {
    const auto* known = std::get_if<MPSHostRefreshStep>(&step);
    auto* source = known ? dynamic_cast<MPSHostSource*>(known->refresh.get()) : nullptr;
    if (!source) {
      continue;
    }
    if (!MPSHostSource::areOnlyOwnersOf(source->storage().getWeakStorageImpl().lock())) {
      if (computations.isMadeInBlock(source->storage())) {
        source->setMadeInBlock();
      }
      continue;
    }
    const auto refresh = *known;
    id<MTLBuffer> buffer = [[device newBufferWithLength:refresh.length
                                                options:MTLResourceStorageModeShared] autorelease];
    if (buffer) {
      source->write([buffer contents]);
      step = MPSCopyStep{buffer, refresh.destination, refresh.length, 0, refresh.offset};
      recording.constants++;
    }
  }
}

// Each once.
static NSArray* executablesOf(const MPSCommandGraphRecording& recording) {
  NSMutableSet* distinct = [NSMutableSet set];
  for (const auto& step : recording.steps) {
    if (const auto* run = std::get_if<MPSGraphRunStep>(&step)) {
      [distinct addObject:run->executable.get()];
    }
  }
  return distinct.allObjects;
}

std::shared_ptr<const MPSCommandGraphRecording> MPSCommandGraphCapture::finish(bool ignores_requires_grad) {
  auto recording = std::make_shared<MPSCommandGraphRecording>();
  {
    std::lock_guard lock(mutex_);
    std::swap(recording, recording_);
  }
  auto& inputs = recording->inputs;
  refuseAt(host_computations_.endBlock());
  for (const auto& source : std::exchange(host_sources_, {})) {
    if (source->isChanged()) {
      refuseAt(
          "the block changed a CPU tensor without an operator, as through numpy, after it had copied the tensor to the "
          "device, and a replay would copy the last values each time. Write with an operator, or before the capture");
    }
  }
  // not under the lock: looking at a tensor may turn out to be its last use, which frees memory
  const auto changed = inputs.takeChanged();
  std::function<std::string()> refusal;
  {
    std::lock_guard lock(mutex_);
    std::for_each(changed.begin(), changed.end(), [&](const auto& tensor) { refuseMove(tensor); });
    std::swap(refusal, refusal_);
  }
  if (unrecorded_draws_ != 0 && !refusal) {
    refusal = [] {
      return "random numbers were drawn in a way that a replay can't repeat. Draw them before the capture";
    };
  }
  if (!expected_bytes_.empty() && !refusal) {
    refusal = [] {
      return "the offset of a generator advanced, but no kernel received the seed and the offset in one setBytes: call, so "
             "a replay can't repeat the draw. Set the offset or draw the numbers before the capture";
    };
  }
  TORCH_CHECK(!refusal, "torch.mps graph capture: ", refusal(), ". The capture was dropped.");
  for (const auto& part : recording->parts) {
    recording->gradients.addPart(part->gradients);
  }
  recording->gradients.add(inputs);
  inputs.finish(check_input_liveness_, ignores_requires_grad);
  recording->host_inputs = host_computations_.takeInputs();
  recording->host_inputs.check_liveness = check_input_liveness_;
  @autoreleasepool {
    keepConstants(*recording, host_computations_, getCurrentMPSStream()->device());
    recording->executables = executablesOf(*recording);
  }
  return recording;
}

void MPSCaptureLock::lock() {
  const CallbackHandle observer = MPSSubmission::currentCapture();
  if (observer == INVALID_CALLBACK_HANDLE) {
    return;
  }
  lock_ = std::unique_lock(active_capture.mutex);
  // it may have ended, and another one begun, in between
  if (active_capture.observer == observer) {
    capture_ = active_capture.capture;
  }
}

MPSActiveCapture active_capture;

// How many pauses this thread is in.
static thread_local int pauses = 0;
// What this thread's copies to the device read, if that is a CPU tensor.
static thread_local std::shared_ptr<MPSHostSource> host_source_now;

bool isObserved(CallbackHandle observer) {
  const auto& observers = get_record_function_tls_().sorted_tls_callbacks_;
  return std::any_of(observers.begin(), observers.end(), [&](const auto& entry) { return entry.handle_ == observer; });
}

CallbackHandle MPSSubmission::currentCapture() {
  if (running_submission) {
    return running_submission->capture;
  }
  const CallbackHandle observer = active_capture.observer;
  const bool is_recorded = observer != INVALID_CALLBACK_HANDLE && pauses == 0 && isObserved(observer);
  return is_recorded ? observer : INVALID_CALLBACK_HANDLE;
}

MPSSubmission MPSSubmission::current() {
  if (running_submission) {
    return *running_submission;
  }
  MPSSubmission submission;
  submission.capture = currentCapture();
  if (submission.capture == INVALID_CALLBACK_HANDLE) {
    return submission;
  }
  submission.host_source = host_source_now;
  if (!operators_now.empty()) {
    submission.outermost_operator = operators_now.front()->name();
    submission.innermost_operator = operators_now.back()->name();
  }
  return submission;
}

bool MPSSubmission::isInOperator() {
  return running_submission ? running_submission->outermost_operator != nullptr : !operators_now.empty();
}

bool MPSSubmission::mayRaise() {
  return running_submission || !MPSStream::isOnAnyQueue();
}

void setInnermostOperator(const char* name) {
  TORCH_INTERNAL_ASSERT(running_submission);
  running_submission->innermost_operator = name;
}

void dispatchInCapture(dispatch_queue_t queue, void (^block)()) {
  MPSSubmission of_this_thread = MPSSubmission::current();
  auto* submission = of_this_thread.capture != INVALID_CALLBACK_HANDLE ? &of_this_thread : nullptr;
  std::exception_ptr exception;
  auto* raised = &exception;
  dispatch_sync(queue, ^() {
    auto* outer = std::exchange(running_submission, submission);
    // An exception that leaves an @autoreleasepool block does not drain the pool. This one drains those inside it.
    @autoreleasepool {
      try {
        block();
      } catch (...) {
        *raised = std::current_exception();
      }
    }
    running_submission = outer;
  });
  if (exception) {
    std::rethrow_exception(exception);
  }
  if (of_this_thread.problem) {
    assertNotCapturing(of_this_thread.problem + inOperator(), "Move the operator out of the capture.");
  }
}

std::string inOperator() {
  const char* name = MPSSubmission::current().outermost_operator;
  return name ? std::string(", in ") + name : "";
}

void setHostSource(std::shared_ptr<MPSHostSource> source) {
  host_source_now = std::move(source);
}

void MPSCapturePause::begin() {
  pauses++;
}

void MPSCapturePause::end() {
  pauses--;
}

namespace detail {
std::atomic<bool> capture_underway{false};
} // namespace detail

static std::atomic<MPSProgramFrame (*)()> gather_frame{nullptr};
static std::atomic<std::string (*)(const MPSProgramFrame&)> line_of_frame{nullptr};
static std::atomic<MPSGradientTarget> gradient_target{nullptr};

void setProgramLine(MPSProgramFrame (*gather)(), std::string (*line_of)(const MPSProgramFrame&)) {
  gather_frame = gather;
  line_of_frame = line_of;
}

MPSProgramFrame programFrame() {
  return knowsProgramLine() && !MPSStream::isOnAnyQueue() ? gather_frame.load()() : nullptr;
}

std::string programLine(const MPSProgramFrame& frame) {
  return frame ? line_of_frame.load()(frame) : "";
}

bool knowsProgramLine() {
  return gather_frame != nullptr;
}

void setGradientTarget(MPSGradientTarget find) {
  gradient_target = find;
}

TensorBase gradientTarget() {
  const MPSGradientTarget find = gradient_target;
  return find ? find() : TensorBase();
}

bool isCurrentStreamCapturing() {
  return isCaptureUnderway() && MPSSubmission::currentCapture() != INVALID_CALLBACK_HANDLE;
}

void useInCaptureUnderway(const TensorBase& tensor) {
  const MPSCaptureLock capture;
  if (!capture || !tensor.has_storage() || !tensor.storage().data()) {
    return;
  }
  if (tensor.is_mps()) {
    capture->useTensor(tensor);
  } else if (tensor.is_cpu()) {
    capture->refuseAt(capture->hostComputations().readInKernel(tensor));
  }
}

bool isAllocatedInCapture(const TensorBase& tensor) {
  const MPSCaptureLock capture;
  return capture && tensor.is_mps() && tensor.has_storage() && capture->hasAllocated(tensor.storage().data());
}

bool MPSHostSourceGuard::begin(const TensorBase& given, const TensorBase& source) {
  if (!isCurrentStreamCapturing()) {
    return false;
  }
  std::string problem;
  if (const MPSCaptureLock capture; capture) {
    problem = capture->hostComputations().useSource(given);
  }
  if (!problem.empty()) {
    raiseInCapture(problem + ".");
  }
  setHostSource(std::make_shared<MPSHostSource>(given, source));
  return true;
}

void MPSHostSourceGuard::end() {
  setHostSource(nullptr);
}

void raiseInCapture(const std::string& message) {
  if (const MPSCaptureLock capture; capture) {
    capture->refuseAt(message.substr(0, message.size() - 1)); // finish() adds the period
    TORCH_CHECK(false, "torch.mps graph capture: ", message);
  }
}

void assertNotCapturing(const std::string& what, const std::string& cure) {
  if (isCurrentStreamCapturing()) {
    const auto line = programLine();
    const auto message = cure.empty() ? c10::str(what, line.empty() ? line : " That was at " + line + ".")
                                      : c10::str(what, line.empty() ? line : ", at " + line, ". ", cure);
    raiseInCapture(message);
  }
}

void refuseRawCommandBuffer() {
  static constexpr const char* reason =
      "code took the stream's raw command buffer, and a graph does not record the work that is encoded to it directly. "
      "Take the encoder from MPSStream::commandEncoder() instead";
  if (MPSSubmission::mayRaise()) {
    assertNotCapturing(std::string(reason) + ".");
  } else if (auto* capture = getCurrentMPSStream()->recordingCapture()) {
    // An exception must not leave a block of plain dispatch_sync().
    capture->refuse(reason);
  }
}

void MPSHostReadGuard::begin(const TensorBase& tensor) {
  if (!isCurrentStreamCapturing()) {
    return;
  }
  const auto read = c10::str(
      "the host read device data: the ", tensor.scalar_type(), " tensor of shape ", tensor.sizes(), inOperator());
  bool is_frozen = false;
  bool is_first = false;
  if (const MPSCaptureLock capture; capture) {
    is_frozen = capture->freezesHostReads();
    is_first = is_frozen && capture->isFirstHostRead();
  }
  if (!is_frozen) {
    assertNotCapturing(read,
                       "A replay can't read it again. Move the read (.item(), .cpu(), printing, a tensor as a "
                       "condition, ...) out of the capture, or pass freeze_host_reads=True to fix the value.");
    return;
  }
  if (is_first) {
    const auto line = programLine();
    TORCH_WARN(
        "torch.mps graph capture: ",
        read,
        line.empty() ? line : ", at " + line,
        ". With freeze_host_reads=True every replay uses the value of the capture. Later reads give no warning.");
  }
  pause_.emplace();
}

} // namespace at::mps
