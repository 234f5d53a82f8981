#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSGraphCapture.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/ops/item.h>

#include <algorithm>

namespace at::mps {

namespace {

thread_local int pauses = 0;
// Set while this thread copies a CPU tensor to the device.
thread_local std::shared_ptr<MPSHostRefresh> host_source;

// The operators that this thread runs, the caller's first.
thread_local std::vector<const RecordFunction*> running;

// Tells that an operator is in `running`.
struct Running final : ObserverContext {};

// The capture underway. Operators run on any thread, also while a capture ends.
std::mutex underway_mutex;
MPSGraphCapture* underway = nullptr;

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

MPSGraphCapture::MPSGraphCapture(MPSCaptureErrorMode error_mode, MPSGraphPool pool, std::vector<Generator> generators)
    : error_mode_(error_mode), generators_(std::move(generators)), work_(std::make_shared<MPSCapturedWork>()) {
  work_->pool.emplace(pool);
  const auto* allocator = getIMPSAllocator();
  allocator->beginAllocateToPool(pool);
  allocator->setBufferObserver([this](const void* buffer, bool allocated) { observeBuffer(buffer, allocated); });
  {
    std::lock_guard<std::mutex> lock(underway_mutex);
    underway = this;
  }
  // sees the tensors as the caller passes and gets them: kernels get views and temporaries of them
  operator_observer_ = addGlobalCallback(RecordFunctionCallback(&observeInputs, &observeOutputs)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({RecordScope::FUNCTION}));
}

MPSGraphCapture::~MPSGraphCapture() {
  stop();
}

void MPSGraphCapture::stop() {
  if (std::exchange(stopped_, true)) {
    return;
  }
  removeCallback(operator_observer_);
  {
    std::lock_guard<std::mutex> lock(underway_mutex);
    underway = nullptr;
  }
  const auto* allocator = getIMPSAllocator();
  allocator->setBufferObserver(nullptr);
  allocator->endAllocateToPool();
}

// What a capture allocates lies in its pool, where those that come later in the capture may have it after a free.
// Blocks that were there before, and those that the host writes, may be given to nobody as long as the graph lives.
void MPSGraphCapture::observeBuffer(const void* buffer, bool allocated) {
  if (allocated) {
    const bool shared_over_time = getIMPSAllocator()->isPoolBuffer(buffer);
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
  auto& watched = work_->watched;
  const auto [position, is_new] = watched_.try_emplace(tensor.unsafeGetTensorImpl(), watched.size());
  if (is_new) {
    watched.emplace_back(tensor);
    return;
  }
  auto& known = watched[position->second];
  if (known.moved()) {
    refuseMove(known);
    known = MPSWatchedTensor(tensor);
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
  if (host_source) {
    recordStep(MPSHostRefreshStep{host_source, copy.destination, copy.length, copy.destination_offset});
  } else {
    useBuffer(copy.source.get());
    recordStep(std::move(copy));
  }
}

void MPSGraphCapture::recordStep(MPSCommandStep step) {
  if (pauses > 0) {
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  work_->steps.push_back(std::move(step));
  work_->operators.emplace_back(replayed_operator_ ? *replayed_operator_
                                                   : (running.empty() ? "" : running.back()->name()));
}

void MPSGraphCapture::useBuffer(id<MTLBuffer> buffer) {
  keepBuffer(buffer);
}

void MPSGraphCapture::refuse(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = reason + inOperator();
  }
}

std::shared_ptr<MPSCapturedWork> MPSGraphCapture::finish() {
  std::shared_ptr<MPSCapturedWork> work = std::make_shared<MPSCapturedWork>();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(work, work_); // operators of other threads may still report
    watched_.clear();
  }
  // not under the lock: looking at a tensor may turn out to be its last use, which frees memory
  auto& watched = work->watched;
  const auto first_moved =
      std::partition(watched.begin(), watched.end(), [](const auto& tensor) { return !tensor.moved(); });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::for_each(first_moved, watched.end(), [&](const auto& tensor) { refuseMove(tensor); });
    if (unrecorded_draws_ != 0 && refusal_.empty()) {
      refusal_ = "random numbers were drawn in a way that a replay can't repeat. Draw them before the capture";
    }
    TORCH_CHECK(refusal_.empty(), "torch.mps graph capture: ", refusal_, ". The capture was dropped.");
  }
  watched.erase(first_moved, watched.end());
  return work;
}

std::string inOperator() {
  return running.empty() ? "" : std::string(", in ") + running.front()->name();
}

MPSCaptureUnderway::MPSCaptureUnderway() : lock_(underway_mutex), capture_(underway) {}

MPSCapturePause::MPSCapturePause() {
  pauses++;
}

MPSCapturePause::~MPSCapturePause() {
  pauses--;
}

void watchOutsideOperators(const TensorBase& tensor) {
  // what operators are given and give is seen by the observer
  if (!isCurrentStreamCapturing() || !running.empty() || !tensor.is_mps()) {
    return;
  }
  const MPSCaptureUnderway capture;
  if (capture) {
    capture->watchTensor(tensor);
  }
}

MPSHostReadGuard::MPSHostReadGuard(const TensorBase& tensor) {
  bool is_first = false;
  {
    const MPSCaptureUnderway capture;
    const bool is_seen = capture && pauses == 0;
    TORCH_CHECK(
        !is_seen || capture->errorMode() == MPSCaptureErrorMode::RELAXED,
        "torch.mps graph capture: the host read device data: the ",
        tensor.scalar_type(),
        " tensor of shape ",
        tensor.sizes(),
        inOperator(),
        ". A replay can't read it again. Move the read (.item(), .cpu(), printing, a tensor as a condition, ...) "
        "out of the capture, or pass capture_error_mode=\"relaxed\" to freeze what it reads.");
    is_first = is_seen && capture->isFirstHostRead();
  }
  if (is_first) {
    TORCH_WARN(
        "torch.mps graph capture: the host read device data: the ",
        tensor.scalar_type(),
        " tensor of shape ",
        tensor.sizes(),
        inOperator(),
        ". With capture_error_mode=\"relaxed\" what it reads is frozen: every replay behaves as if it had read the same "
        "values. Later reads are frozen without a warning.");
  }
  // also without a capture: one may begin before the copy is encoded, and nothing would keep the host's memory for it
  pause_ = std::make_unique<MPSCapturePause>();
}

MPSHostReadGuard::~MPSHostReadGuard() = default;

MPSHostSourceGuard::MPSHostSourceGuard(const TensorBase& given, const TensorBase& source) {
  if (getCurrentMPSStream()->capture()) {
    host_source = std::make_shared<MPSHostSource>(given, source);
  } else {
    pause_ = std::make_unique<MPSCapturePause>(); // as above
  }
}

MPSHostSourceGuard::~MPSHostSourceGuard() {
  host_source.reset();
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
  encode(stream->commandBuffer());
  if (auto* capture = stream->capture()) {
    capture->recordStep(MPSEncodeStep{[[encode copy] autorelease]});
  }
}

} // namespace at::mps
