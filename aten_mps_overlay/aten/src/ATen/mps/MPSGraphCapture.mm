#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSGraphCapture.h>

#include <algorithm>

namespace at::mps {

namespace {

// Set while this thread reads device data for the host in "relaxed" mode: that work is not part of the graph.
thread_local int pauses = 0;

// The capture that the operator observer reports to. Operators run on any thread, also while a capture ends.
std::mutex observed_mutex;
MPSGraphCapture* observed = nullptr;

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
  std::lock_guard<std::mutex> lock(observed_mutex);
  if (!observed) {
    return;
  }
  for (const auto& value : values) {
    forEachTensor(value, [](const Tensor& tensor) {
      if (tensor.defined() && tensor.is_mps() && tensor.has_storage()) {
        observed->watchTensor(tensor);
      }
    });
  }
}

std::unique_ptr<ObserverContext> observeInputs(const RecordFunction& function) {
  observe(function.inputs());
  return nullptr;
}

void observeOutputs(const RecordFunction& function, ObserverContext*) {
  const auto& outputs = function.outputs();
  observe(c10::ArrayRef<const IValue>(outputs.data(), outputs.size()));
}

} // namespace

MPSGraphCapture::MPSGraphCapture(MPSCaptureErrorMode error_mode)
    : error_mode_(error_mode), work_(std::make_shared<MPSCapturedWork>()) {
  getIMPSAllocator()->setBufferObserver(
      [this](const void* buffer, bool allocated) { observeBuffer(buffer, allocated); });
  {
    std::lock_guard<std::mutex> lock(observed_mutex);
    observed = this;
  }
  // sees the tensors as the caller passes and gets them: kernels get views and temporaries of them
  operator_observer_ = addGlobalCallback(RecordFunctionCallback(&observeInputs, &observeOutputs)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({RecordScope::FUNCTION}));
}

MPSGraphCapture::~MPSGraphCapture() {
  removeCallback(operator_observer_);
  {
    std::lock_guard<std::mutex> lock(observed_mutex);
    observed = nullptr;
  }
  getIMPSAllocator()->setBufferObserver(nullptr);
}

void MPSGraphCapture::observeBuffer(const void* buffer, bool allocated) {
  if (allocated) {
    std::lock_guard<std::mutex> lock(mutex_);
    allocated_here_.insert(buffer);
  }
  keepBuffer(buffer);
}

void MPSGraphCapture::keepBuffer(const void* buffer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (work_->pinned.contains(buffer)) {
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

void MPSGraphCapture::keepHostSource(const c10::Storage& storage) {
  std::lock_guard<std::mutex> lock(mutex_);
  work_->host_sources.push_back(storage);
}

void MPSGraphCapture::keepPart(std::shared_ptr<const MPSCapturedWork> part) {
  std::lock_guard<std::mutex> lock(mutex_);
  work_->parts.push_back(std::move(part));
}

void MPSGraphCapture::warnHostRead() {
  if (!std::exchange(warned_host_read_, true)) {
    TORCH_WARN(
        "torch.mps graph capture: the host read device data. With capture_error_mode=\"relaxed\" what it read "
        "is frozen: every replay behaves as if it had read the same values.");
  }
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

void MPSGraphCapture::recordStep(MPSCommandStep step) {
  if (pauses > 0) {
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  work_->steps.push_back(std::move(step));
}

void MPSGraphCapture::useBuffer(id<MTLBuffer> buffer) {
  keepBuffer(buffer);
}

void MPSGraphCapture::refuse(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = reason;
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
    TORCH_CHECK(refusal_.empty(), "torch.mps graph capture: ", refusal_, ". The capture was dropped.");
  }
  watched.erase(first_moved, watched.end());
  return work;
}

MPSHostReadGuard::MPSHostReadGuard() {
  auto* capture = getCurrentMPSStream()->capture();
  if (!capture) {
    return;
  }
  TORCH_CHECK(capture->errorMode() == MPSCaptureErrorMode::RELAXED,
              "torch.mps graph capture: the host read device data (.item(), .cpu(), .tolist(), nonzero(), printing, a "
              "tensor as a condition, ...). Replays could not read it again. Move the read out of the capture, or pass "
              "capture_error_mode=\"relaxed\" to freeze what it reads.");
  capture->warnHostRead();
  pauses_ = true;
  pauses++;
}

MPSHostReadGuard::~MPSHostReadGuard() {
  if (pauses_) {
    pauses--;
  }
}

void recordHostSource(const TensorBase& given, const TensorBase& source) {
  auto* capture = getCurrentMPSStream()->capture();
  if (!capture) {
    return;
  }
  TORCH_CHECK(
      source.storage().is_alias_of(given.storage()),
      "torch.mps graph capture: a CPU tensor was copied to the device by way of a converted copy on the host (",
      given.scalar_type(),
      " to ",
      source.scalar_type(),
      ", or from strides with gaps), which a replay would not make again. Convert it to the destination's dtype "
      "and make it contiguous before the capture.");
  capture->keepHostSource(given.storage());
}

} // namespace at::mps
