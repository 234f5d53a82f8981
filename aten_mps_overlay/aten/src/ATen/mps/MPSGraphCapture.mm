#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/ops/item.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace at::mps {

namespace {

thread_local int pauses = 0;
// Set while this thread copies a CPU tensor to the device.
thread_local std::shared_ptr<MPSHostRefresh> thread_host_source;

// The operators that this thread runs, the caller's first.
thread_local std::vector<const RecordFunction*> running;
// Of the last capture that this thread began.
thread_local CallbackHandle last_observer = INVALID_CALLBACK_HANDLE;

// Tells that an operator is in `running`.
struct Running final : ObserverContext {};

// The capture underway. Operators run on any thread, also while a capture ends.
std::mutex underway_mutex;
MPSGraphCapture* underway = nullptr;
// Its observer, for those who only ask whose they are.
std::atomic<CallbackHandle> underway_observer{INVALID_CALLBACK_HANDLE};

std::atomic<MPSProgramLine> program_line{nullptr};

// That of the block which the stream's queue runs. On the queue only.
const MPSSubmission* running_submission = nullptr;

// A thread works for the capture whose observer it has. PyTorch hands observers on to threads that go on with its work.
bool observesThisThread(CallbackHandle observer) {
  const auto& observers = get_record_function_tls_().sorted_tls_callbacks_;
  return std::any_of(observers.begin(), observers.end(), [&](const auto& entry) { return entry.handle_ == observer; });
}

// Does nothing on other threads, which can't: theirs is removed when they begin the next capture.
void removeObserver(CallbackHandle observer) {
  if (observesThisThread(observer)) {
    removeCallback(observer);
  }
}

// "train.py:12 (step)", or "". Takes the interpreter's lock: hold no other one, and don't be on the queue.
std::string programLine() {
  const MPSProgramLine find = program_line;
  return find && !getCurrentMPSStream()->isOnQueue() ? find() : "";
}

template <typename Visitor>
void forEachTensor(const IValue& value, const Visitor& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) {
      forEachTensor(element, visit);
    }
  }
}

void observe(c10::ArrayRef<const IValue> values) {
  const MPSCaptureUnderway capture;
  if (!capture) {
    return;
  }
  for (const auto& value : values) {
    forEachTensor(value, [&](const Tensor& tensor) {
      if (tensor.defined() && tensor.is_mps() && tensor.has_storage()) {
        capture->watchTensor(tensor);
      }
    });
  }
}

std::unique_ptr<ObserverContext> observeInputs(const RecordFunction& function) {
  observe(function.inputs());
  running.push_back(&function);
  return std::make_unique<Running>();
}

void observeOutputs(const RecordFunction& function, ObserverContext* context) {
  if (context) {
    running.pop_back();
  }
  const auto& outputs = function.outputs();
  observe(c10::ArrayRef<const IValue>(outputs.data(), outputs.size()));
}

} // namespace

MPSSubmission MPSSubmission::ofThisThread() {
  MPSSubmission submission;
  const CallbackHandle observer = underway_observer.load(std::memory_order_acquire);
  if (observer == INVALID_CALLBACK_HANDLE || pauses > 0 || !observesThisThread(observer)) {
    return submission;
  }
  submission.capture = observer;
  submission.host_source = thread_host_source;
  if (!running.empty()) {
    submission.outermost_operator = running.front()->name();
    submission.innermost_operator = running.back()->name();
  }
  return submission;
}

MPSSubmission MPSSubmission::current() {
  if (!getCurrentMPSStream()->isOnQueue()) {
    return ofThisThread();
  }
  if (running_submission) {
    return *running_submission;
  }
  MPSSubmission submission = ofThisThread();
  submission.is_known = submission.capture != 0;
  return submission;
}

void dispatchSubmission(dispatch_queue_t queue, void (^block)()) {
  auto* stream = getCurrentMPSStream();
  const MPSSubmission of_this_thread = MPSSubmission::ofThisThread();
  const auto* submission = &of_this_thread;
  dispatch_sync(queue, ^() {
    if (!stream->isOnQueue()) {
      block();
      return;
    }
    running_submission = submission;
    const auto end = c10::make_scope_exit([] { running_submission = nullptr; });
    block();
  });
}

MPSGraphCapture::MPSGraphCapture(MPSCaptureErrorMode error_mode,
                                 MPSGraphPool pool,
                                 std::vector<Generator> generators,
                                 bool check_input_liveness,
                                 bool notes_places)
    : error_mode_(error_mode),
      generators_(std::move(generators)),
      check_input_liveness_(check_input_liveness),
      notes_places_(notes_places),
      work_(std::make_shared<MPSCapturedWork>()) {
  work_->mechanisms = MPSReplayMechanisms::fromEnvironment();
  work_->pool.emplace(pool);
  const auto* allocator = getIMPSAllocator();
  allocator->beginAllocateToPool(pool, [this] { return isOfThisSubmission(); });
  allocator->setBufferObserver([this](const void* buffer) { observeBuffer(buffer); });
}

MPSGraphCapture::~MPSGraphCapture() {
  belongToNoThread();
  stop();
}

void MPSGraphCapture::belongToThisThread() {
  removeObserver(last_observer); // of a capture that another thread has ended
  // sees the tensors as the caller passes and gets them: kernels get views and temporaries of them
  operator_observer_ = addThreadLocalCallback(RecordFunctionCallback(&observeInputs, &observeOutputs)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({RecordScope::FUNCTION}));
  last_observer = operator_observer_;
  std::lock_guard<std::mutex> lock(underway_mutex);
  underway = this;
  underway_observer.store(operator_observer_, std::memory_order_release);
}

void MPSGraphCapture::belongToNoThread() {
  {
    std::lock_guard<std::mutex> lock(underway_mutex);
    if (underway != this) {
      return;
    }
    underway = nullptr;
    underway_observer.store(INVALID_CALLBACK_HANDLE, std::memory_order_release);
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
        "work came to the stream's queue by dispatch_sync() on a thread that does not work for the capture, so that it "
        "is not known whether it belongs to it. Submit it with at::native::mps::dispatch_sync_with_rethrow()");
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

// What a capture allocates lies in its pool, where those that come later in the capture may have it after a free.
// Blocks that were there before and are used, and those that the host writes, may be given to nobody as long as the
// graph lives.
void MPSGraphCapture::observeBuffer(const void* buffer) {
  if (!isOfThisSubmission()) {
    return;
  }
  const bool shared_over_time = getIMPSAllocator()->isPoolBuffer(buffer);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    allocated_here_[buffer] = shared_over_time;
  }
  keepBuffer(buffer);
}

void MPSGraphCapture::keepBuffer(const void* buffer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto allocated = allocated_here_.find(buffer);
    const bool lies_in_pool = allocated != allocated_here_.end() && allocated->second;
    if (lies_in_pool || work_->pinned.contains(buffer)) {
      return;
    }
  }
  const auto* allocator = getIMPSAllocator();
  if (!allocator->pin(buffer)) {
    return; // not a block of the allocator: the steps retain the buffer itself
  }
  bool adopted = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    adopted = work_->pinned.adopt(buffer);
  }
  if (!adopted) {
    allocator->unpin(buffer);
  }
}

void MPSGraphCapture::watchTensor(const TensorBase& tensor) {
  const void* data = tensor.storage().data();
  if (!data) {
    return;
  }
  keepBuffer(data);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [position, is_new] = watched_places_.try_emplace(tensor.unsafeGetTensorImpl(), watched_.size());
  if (is_new) {
    watched_.emplace_back(tensor, check_input_liveness_ && allocated_here_.count(data) == 0);
    return;
  }
  auto& known = watched_[position->second];
  if (known.moved()) {
    refuseMove(known);
    known = MPSWatchedTensor(tensor, check_input_liveness_ && allocated_here_.count(data) == 0);
  }
}

// Steps before the move use the old memory, those after it the new. For a tensor that was made in the block that is
// what running the block again would do as well; for one that existed before it is not.
void MPSGraphCapture::refuseMove(const MPSWatchedTensor& tensor) {
  if (allocated_here_.count(tensor.data()) == 0 && refusal_.empty()) {
    refusal_ = "the block used " + tensor.describe() + ". Resize or replace tensors before the capture";
  }
}

void MPSGraphCapture::keepChecks(const MPSCapturedWork& part) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& checks = work_->status_checks;
  checks.insert(checks.end(), part.status_checks.begin(), part.status_checks.end());
}

void MPSGraphCapture::checkStatus(const Tensor& status, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  id<MTLBuffer> buffer = (id<MTLBuffer>)status.storage().data();
  work_->status_checks.push_back({buffer, status.storage_offset() * status.itemsize(), message});
  work_->held.push_back(status);
}

bool MPSGraphCapture::isRegistered(const GeneratorImpl* generator) const {
  return std::any_of(generators_.begin(), generators_.end(), [&](const Generator& registered) {
    return registered.unsafeGetGeneratorImpl() == generator;
  });
}

void MPSGraphCapture::keepPart(std::shared_ptr<const MPSCapturedWork> part) {
  std::lock_guard<std::mutex> lock(mutex_);
  work_->parts.push_back(std::move(part));
}

void MPSGraphCapture::notePlace(id object, MPSTensorPlace place) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (places_.insert_or_assign(object, std::move(place)).second) {
    placed_.emplace_back(object);
  }
}

void MPSGraphCapture::notePlaceOf(id object, id other) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = places_.find(other);
  if (known == places_.end()) {
    return;
  }
  const MPSTensorPlace place = known->second;
  if (places_.insert_or_assign(object, place).second) {
    placed_.emplace_back(object);
  }
}

id<MTLComputeCommandEncoder> MPSGraphCapture::newRecordingEncoder(id<MTLComputeCommandEncoder> encoder) {
  return (id<MTLComputeCommandEncoder>)[[MPSRecordingEncoder alloc] initWithEncoder:encoder recorder:this];
}

void MPSGraphCapture::recordGraphRun(MPSGraph* graph,
                                     NSDictionary* feeds,
                                     NSDictionary* targets,
                                     const MPSExecutableRun& run) {
  MPSGraphRunStep step;
  if (run.executable) {
    step.executable = run.executable;
    step.inputs = run.inputs;
    step.results = run.results;
  } else {
    step.graph = graph;
    // callers may go on to change a mutable dictionary
    step.feeds = [[feeds copy] autorelease];
    step.targets = [[targets copy] autorelease];
  }
  if (notes_places_) {
    auto places = std::make_shared<MPSTensorPlaces>();
    std::lock_guard<std::mutex> lock(mutex_);
    for (NSDictionary* all : {feeds, targets}) {
      for (MPSGraphTensorData* data in all.allValues) {
        const auto known = places_.find(data);
        if (known != places_.end()) {
          places->insert(*known);
        }
      }
    }
    step.places = std::move(places);
  }
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
  std::lock_guard<std::mutex> lock(mutex_);
  work_->steps.push_back(std::move(step));
  work_->operators.emplace_back(replayed_operator_ ? *replayed_operator_ : name);
}

void MPSGraphCapture::useBuffer(id<MTLBuffer> buffer) {
  keepBuffer(buffer);
}

void MPSGraphCapture::refreshBytes(std::vector<uint8_t> bytes, std::shared_ptr<MPSHostRefresh> refresh) {
  std::lock_guard<std::mutex> lock(mutex_);
  expected_bytes_.emplace_back(std::move(bytes), std::move(refresh));
}

std::shared_ptr<const MPSRefreshedBytes> MPSGraphCapture::refreshOf(const void* bytes, size_t length) {
  std::lock_guard<std::mutex> lock(mutex_);
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
  std::lock_guard<std::mutex> lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = reason + inOperator();
  }
}

std::shared_ptr<MPSCapturedWork> MPSGraphCapture::finish() {
  std::shared_ptr<MPSCapturedWork> work = std::make_shared<MPSCapturedWork>();
  std::vector<MPSWatchedTensor> watched;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(work, work_); // operators of other threads may still report
    std::swap(watched, watched_);
    watched_places_.clear();
    places_.clear();
  }
  // not under the lock: looking at a tensor may turn out to be its last use, which frees memory
  const auto first_moved =
      std::partition(watched.begin(), watched.end(), [](const auto& tensor) { return !tensor.moved(); });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::for_each(first_moved, watched.end(), [&](const auto& tensor) { refuseMove(tensor); });
    if (unrecorded_draws_ != 0 && refusal_.empty()) {
      refusal_ = "random numbers were drawn in a way that a replay can't repeat. Draw them before the capture";
    }
    if (!expected_bytes_.empty() && refusal_.empty()) {
      refusal_ =
          "the offset of a generator moved on in a way that a replay can't repeat: no kernel took seed and offset by one "
          "setBytes:. Set it, or draw, before the capture";
    }
    TORCH_CHECK(refusal_.empty(), "torch.mps graph capture: ", refusal_, ". The capture was dropped.");
  }
  watched.erase(first_moved, watched.end());
  work->watchTensors(std::move(watched));
  return work;
}

std::string inOperator() {
  const char* name = MPSSubmission::current().outermost_operator;
  return name ? std::string(", in ") + name : "";
}

MPSCaptureUnderway::MPSCaptureUnderway() {
  const CallbackHandle observer = MPSSubmission::current().capture;
  if (observer == INVALID_CALLBACK_HANDLE) {
    return;
  }
  lock_ = std::unique_lock<std::mutex>(underway_mutex);
  // it may have ended, and another one begun, in between
  if (underway_observer == observer) {
    capture_ = underway;
  }
}

MPSCapturePause::MPSCapturePause() {
  pauses++;
}

MPSCapturePause::~MPSCapturePause() {
  pauses--;
}

bool isCurrentStreamCapturing() {
  return MPSSubmission::current().capture != 0;
}

bool isCaptureUnderway() {
  return getCurrentMPSStream()->capture() != nullptr;
}

void setProgramLine(MPSProgramLine find) {
  program_line = find;
}

void assertNotCapturing(const std::string& what) {
  if (isCurrentStreamCapturing()) {
    const auto line = programLine();
    TORCH_CHECK(false, "torch.mps graph capture: ", what, line.empty() ? line : " That was at " + line + ".");
  }
}

void useInCapture(const TensorBase& tensor) {
  if (!isCaptureUnderway() || !tensor.is_mps() || !tensor.has_storage() || !tensor.storage().data()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (!capture) {
    return;
  }
  if (MPSSubmission::current().outermost_operator) {
    // what operators are given and give is seen by the observer
    capture->keepTensor(tensor);
  } else {
    capture->watchTensor(tensor);
  }
}

void refuseRawCommandBuffer() {
  static constexpr const char* reason =
      "the stream's command buffer was taken, and what is encoded to it directly is not recorded";
  auto* stream = getCurrentMPSStream();
  if (!stream->isOnQueue() || running_submission) {
    assertNotCapturing(std::string(reason) + ".");
  } else if (auto* capture = stream->recordingCapture()) {
    // an exception must not leave a block of dispatch_sync()
    capture->refuse(reason);
  }
}

MPSHostReadGuard::MPSHostReadGuard(const TensorBase& tensor) {
  bool is_captured = false;
  bool is_refused = false;
  bool is_first = false;
  {
    const MPSCaptureUnderway capture;
    is_captured = static_cast<bool>(capture);
    is_refused = is_captured && capture->errorMode() != MPSCaptureErrorMode::RELAXED;
    is_first = is_captured && !is_refused && capture->isFirstHostRead();
  }
  if (is_refused || is_first) {
    const auto line = programLine();
    const auto read = c10::str("torch.mps graph capture: the host read device data: the ",
                               tensor.scalar_type(),
                               " tensor of shape ",
                               tensor.sizes(),
                               inOperator(),
                               line.empty() ? line : ", at " + line);
    TORCH_CHECK(
        !is_refused,
        read,
        ". A replay can't read it again. Move the read (.item(), .cpu(), printing, a tensor as a condition, ...) "
        "out of the capture, or pass capture_error_mode=\"relaxed\" to freeze what it reads.");
    TORCH_WARN(
        read,
        ". With capture_error_mode=\"relaxed\" what it reads is frozen: every replay behaves as if it had read the "
        "same values. Later reads are frozen without a warning.");
  }
  if (is_captured) {
    pause_ = std::make_unique<MPSCapturePause>();
  }
}

MPSHostReadGuard::~MPSHostReadGuard() = default;

MPSHostSourceGuard::MPSHostSourceGuard(const TensorBase& given, const TensorBase& source) {
  if (isCurrentStreamCapturing()) {
    thread_host_source = std::make_shared<MPSHostSource>(given, source);
  }
}

MPSHostSourceGuard::~MPSHostSourceGuard() {
  thread_host_source.reset();
}

// Asks first whether anybody wants to know: operators outside of captures pass here, too.
template <typename Note>
static void noteInCapture(const Note& note) {
  if (!isCaptureUnderway()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (capture && capture->notesPlaces()) {
    note(*capture);
  }
}

static MPSTensorPlace makePlace(MPSShape* shape, MPSDataType type) {
  MPSTensorPlace place;
  place.type = type;
  const auto dtype = scalarTypeOf(type);
  place.itemsize = dtype == c10::ScalarType::Undefined ? 0 : c10::elementSize(dtype);
  for (NSNumber* size in shape) {
    place.sizes.push_back(size.longLongValue);
  }
  place.strides.resize(place.sizes.size());
  int64_t stride = 1;
  for (size_t i = place.sizes.size(); i-- > 0;) {
    place.strides[i] = stride;
    stride *= place.sizes[i];
  }
  return place;
}

void notePlace(id object,
               MPSShape* shape,
               MPSDataType type,
               id<MTLBuffer> buffer,
               size_t byte_offset,
               std::optional<IntArrayRef> strides) {
  noteInCapture([&](MPSGraphCapture& capture) {
    auto place = makePlace(shape, type);
    if (strides && strides->size() == place.strides.size()) {
      place.strides = strides->vec();
    } else if (strides && !strides->empty()) {
      return; // of another shape than it says
    }
    std::tie(place.region, place.begin) = regionOf(buffer);
    place.begin += byte_offset;
    capture.notePlace(object, std::move(place));
  });
}

void noteOwnPlace(id object, MPSShape* shape, MPSDataType type) {
  noteInCapture([&](MPSGraphCapture& capture) {
    auto place = makePlace(shape, type);
    place.region = object;
    capture.notePlace(object, std::move(place));
  });
}

void notePlaceOf(id object, id other) {
  noteInCapture([&](MPSGraphCapture& capture) { capture.notePlaceOf(object, other); });
}

int readStatus(const Tensor& status, const std::string& message) {
  {
    const MPSCaptureUnderway capture;
    if (capture) {
      capture->checkStatus(status, message);
    }
  }
  const MPSCapturePause pause;
  return status.item<int>();
}

void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>)) {
  encode(stream->recordedCommandBuffer());
  if (auto* capture = stream->recordingCapture()) {
    void (^kept)(id<MTLCommandBuffer>) = [[encode copy] autorelease];
    capture->recordStep(MPSEncodeStep{[[^(id<MTLCommandBuffer> command_buffer, id<MTLComputeCommandEncoder>) {
      kept(command_buffer);
    } copy] autorelease]});
  }
}

void encodeAlone(MPSStream* stream, const MPSEncodeStep& step) {
  MPSCommandBuffer* command_buffer = stream->recordedCommandBuffer();
  id<MTLComputeCommandEncoder> encoder = step.takes_encoder ? [command_buffer computeCommandEncoder] : nil;
  step.encode.get()(command_buffer, encoder);
  [encoder endEncoding];
}

void encodeAndRecordInEncoder(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>)) {
  auto* capture = stream->recordingCapture();
  if (!capture) {
    id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
    encode(stream->recordedCommandBuffer(), encoder);
    return;
  }
  stream->endKernelCoalescing();
  MPSEncodeStep step{[[encode copy] autorelease], /*takes_encoder=*/true};
  encodeAlone(stream, step);
  capture->recordStep(std::move(step));
}

} // namespace at::mps
