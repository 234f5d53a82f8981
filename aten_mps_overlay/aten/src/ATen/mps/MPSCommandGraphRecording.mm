#include <ATen/mps/MPSCommandGraphAhead.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphIndirect.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSCommandGraphStaging.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSProfiler.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace at::mps {

void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy) {
  constexpr size_t largest_piece = 0x80000000;
  for (size_t done = 0; done < copy.length; done += largest_piece) {
    [encoder copyFromBuffer:copy.source.get()
               sourceOffset:copy.source_offset + done
                   toBuffer:copy.destination.get()
          destinationOffset:copy.destination_offset + done
                       size:std::min(largest_piece, copy.length - done)];
  }
}

void encodeCall(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernels, const MPSEncoderCall& call) {
  using Kind = MPSEncoderCall::Kind;
  switch (call.kind) {
    case Kind::SET_PIPELINE:
      [encoder setComputePipelineState:call.object];
      break;
    case Kind::SET_BUFFER:
      [encoder setBuffer:call.object offset:call.value atIndex:call.index];
      break;
    case Kind::SET_BUFFERS: {
      const auto* buffers = kernels.at<id<MTLBuffer>>(call);
      [encoder setBuffers:buffers
                  offsets:reinterpret_cast<const NSUInteger*>(buffers + call.count)
                withRange:NSMakeRange(call.index, call.count)];
      break;
    }
    case Kind::SET_BUFFER_OFFSET:
      [encoder setBufferOffset:call.value atIndex:call.index];
      break;
    case Kind::SET_BYTES:
      // An empty std::vector, such as the shape of a tensor without dimensions, gave none.
      [encoder setBytes:call.count > 0 ? kernels.at<void>(call) : nullptr length:call.count atIndex:call.index];
      break;
    case Kind::SET_REFRESHED_BYTES:
    case Kind::ENCODE_OBJECT:
      TORCH_INTERNAL_ASSERT(false, "the caller makes this call");
    case Kind::SET_THREADGROUP_MEMORY:
      [encoder setThreadgroupMemoryLength:call.value atIndex:call.index];
      break;
    case Kind::USE_RESOURCE:
      [encoder useResource:call.object usage:call.count];
      break;
    case Kind::USE_RESOURCES:
      [encoder useResources:kernels.at<id<MTLResource>>(call) count:call.count usage:call.index];
      break;
    case Kind::BARRIER:
      [encoder memoryBarrierWithScope:call.count];
      break;
    case Kind::BARRIER_FOR_RESOURCES:
      [encoder memoryBarrierWithResources:kernels.at<id<MTLResource>>(call) count:call.count];
      break;
    case Kind::DISPATCH_THREADS: {
      const auto* sizes = kernels.at<MTLSize>(call);
      [encoder dispatchThreads:sizes[0] threadsPerThreadgroup:sizes[1]];
      break;
    }
    case Kind::DISPATCH_THREADGROUPS: {
      const auto* sizes = kernels.at<MTLSize>(call);
      [encoder dispatchThreadgroups:sizes[0] threadsPerThreadgroup:sizes[1]];
      break;
    }
    case Kind::DISPATCH_INDIRECT: {
      const auto* data = kernels.at<uint64_t>(call);
      [encoder dispatchThreadgroupsWithIndirectBuffer:call.object
                                 indirectBufferOffset:data[0]
                                threadsPerThreadgroup:*reinterpret_cast<const MTLSize*>(data + 1)];
      break;
    }
  }
}

} // namespace at::mps

using namespace at::mps;

using Kind = MPSEncoderCall::Kind;

@implementation MPSRecordingEncoder {
  id<MTLComputeCommandEncoder> _encoder;
  MPSKernelRecorder* _recorder;
  // null until the first call
  MPSKernelStep* _step;
}

- (instancetype)initWithEncoder:(id<MTLComputeCommandEncoder>)encoder recorder:(MPSKernelRecorder*)recorder {
  self = [super init];
  if (self) {
    _encoder = [encoder retain];
    _recorder = recorder;
  }
  return self;
}

- (void)dealloc {
  [_encoder release];
  [super dealloc];
}

- (MPSEncoderCall&)record:(Kind)kind object:(id)object {
  if (!_step) {
    _step = &_recorder->beginKernels();
  }
  if (object) {
    _recorder->keepObject(object);
  }
  auto& call = _step->calls.emplace_back();
  call.kind = kind;
  call.object = object;
  return call;
}

// Returns where the data lies in the step.
- (size_t)recordData:(const void*)data length:(size_t)length {
  const size_t position = _step->data.size();
  _step->data.resize(position + (length + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (length > 0) {
    std::memcpy(_step->data.data() + position, data, length);
  }
  return position;
}

- (void)record:(Kind)kind objects:(const id*)objects count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  auto& call = [self record:kind object:nil];
  call.index = usage;
  call.count = count;
  call.value = [self recordData:objects length:count * sizeof(id)];
  for (const auto i : c10::irange(count)) {
    if (objects[i]) {
      _recorder->keepObject(objects[i]);
    }
  }
}

- (MPSEncoderCall&)recordDispatch:(Kind)kind object:(id)object {
  auto& call = [self record:kind object:object];
  _step->dispatches++;
  _recorder->recordWork();
  return call;
}

- (void)recordDispatch:(Kind)kind size:(MTLSize)size threadgroup:(MTLSize)threadgroup {
  const MTLSize sizes[] = {size, threadgroup};
  auto& call = [self recordDispatch:kind object:nil];
  call.value = [self recordData:sizes length:sizeof(sizes)];
}

// MARK: - recorded

- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  [_encoder setComputePipelineState:state];
  [self record:Kind::SET_PIPELINE object:state];
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [_encoder setBuffer:buffer offset:offset atIndex:index];
  auto& call = [self record:Kind::SET_BUFFER object:buffer];
  call.index = index;
  call.value = offset;
}

- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  [_encoder setBufferOffset:offset atIndex:index];
  auto& call = [self record:Kind::SET_BUFFER_OFFSET object:nil];
  call.index = index;
  call.value = offset;
}

- (void)setBuffers:(const id<MTLBuffer>*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range {
  [_encoder setBuffers:buffers offsets:offsets withRange:range];
  [self record:Kind::SET_BUFFERS objects:buffers count:range.length usage:0];
  [self recordData:offsets length:range.length * sizeof(NSUInteger)];
  _step->calls.back().index = range.location;
}

- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  if (auto refreshed = _recorder->refreshOf(bytes, length)) {
    [self setRefreshedBytes:std::move(refreshed) newBytes:bytes atIndex:index];
    return;
  }
  [_encoder setBytes:bytes length:length atIndex:index];
  auto& call = [self record:Kind::SET_BYTES object:nil];
  call.index = index;
  call.count = length;
  call.value = [self recordData:bytes length:length];
}

- (void)setRefreshedBytes:(std::shared_ptr<const MPSRefreshedBytes>)refreshed
                 newBytes:(const void*)bytes
                  atIndex:(NSUInteger)index {
  [_encoder setBytes:bytes length:refreshed->length atIndex:index];
  auto& call = [self record:Kind::SET_REFRESHED_BYTES object:nil];
  call.index = index;
  call.value = _step->refreshed.size();
  _step->refreshed.push_back(std::move(refreshed));
}

- (void)encodeObject:(void (^)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>))encode
     toCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  encode(commandBuffer, _encoder);
  auto& call = [self record:Kind::ENCODE_OBJECT object:nil];
  call.value = _step->objects.size();
  _step->objects.emplace_back([[encode copy] autorelease]);
  _recorder->recordWork();
}

- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  [_encoder setThreadgroupMemoryLength:length atIndex:index];
  auto& call = [self record:Kind::SET_THREADGROUP_MEMORY object:nil];
  call.index = index;
  call.value = length;
}

- (void)useResource:(id<MTLResource>)resource usage:(MTLResourceUsage)usage {
  [_encoder useResource:resource usage:usage];
  [self record:Kind::USE_RESOURCE object:resource].count = usage;
}

- (void)useResources:(const id<MTLResource>*)resources count:(NSUInteger)count usage:(MTLResourceUsage)usage {
  [_encoder useResources:resources count:count usage:usage];
  [self record:Kind::USE_RESOURCES objects:resources count:count usage:usage];
}

- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  [_encoder memoryBarrierWithScope:scope];
  [self record:Kind::BARRIER object:nil].count = scope;
}

- (void)memoryBarrierWithResources:(const id<MTLResource>*)resources count:(NSUInteger)count {
  [_encoder memoryBarrierWithResources:resources count:count];
  [self record:Kind::BARRIER_FOR_RESOURCES objects:resources count:count usage:0];
}

- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreads:threads threadsPerThreadgroup:threadgroup];
  [self recordDispatch:Kind::DISPATCH_THREADS size:threads threadgroup:threadgroup];
}

- (void)dispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreadgroups:threadgroups threadsPerThreadgroup:threadgroup];
  [self recordDispatch:Kind::DISPATCH_THREADGROUPS size:threadgroups threadgroup:threadgroup];
}

- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer
                          indirectBufferOffset:(NSUInteger)offset
                         threadsPerThreadgroup:(MTLSize)threadgroup {
  [_encoder dispatchThreadgroupsWithIndirectBuffer:buffer
                              indirectBufferOffset:offset
                             threadsPerThreadgroup:threadgroup];
  auto& call = [self recordDispatch:Kind::DISPATCH_INDIRECT object:buffer];
  call.value = [self recordData:&offset length:sizeof(offset)];
  [self recordData:&threadgroup length:sizeof(threadgroup)];
}

// MARK: - refused

// The call still reaches the GPU, so the block computes what it would without a capture; ending the capture raises.
// Nothing is thrown from here: many callers sit in a dispatch_sync block, which an exception must not leave.
- (id)forwardingTargetForSelector:(SEL)selector {
  // These have no effect on what the GPU computes.
  static const std::unordered_set<std::string> harmless = {"device",
                                                           "dispatchType",
                                                           "endEncoding",
                                                           "insertDebugSignpost:",
                                                           "label",
                                                           "popDebugGroup",
                                                           "pushDebugGroup:",
                                                           "setLabel:"};
  const std::string name = sel_getName(selector);
  if (harmless.count(name) == 0) {
    _recorder->refuse("the compute encoder was sent '" + name +
                      "', which a graph does not record. Use another method, or move the kernel out of the capture");
  }
  return _encoder;
}

- (BOOL)respondsToSelector:(SEL)selector {
  return [super respondsToSelector:selector] || [_encoder respondsToSelector:selector];
}

- (BOOL)conformsToProtocol:(Protocol*)protocol {
  return [super conformsToProtocol:protocol] || [_encoder conformsToProtocol:protocol];
}

@end

namespace at::mps {

void MPSReplayWatch::watchCommandBuffer() {
  id<MTLCommandBuffer> command_buffer =
      (command_buffer_ ? command_buffer_ : stream_->recordedCommandBuffer()).commandBuffer;
  if (command_buffer != watched_.get()) {
    watched_ = command_buffer;
    watch(nullptr);
  }
}

void MPSReplayWatch::watch(std::string (^problem)(id<MTLCommandBuffer>)) {
  auto* stream = stream_;
  NSObject* kept = kept_;
  stream->expectCheck();
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer> command_buffer) {
    (void)kept; // the block retains it
    if (command_buffer.status == MTLCommandBufferStatusError) {
      const char* reason = command_buffer.error.localizedDescription.UTF8String;
      stream->deferError(
          std::string("torch.mps graph replay: the GPU reported an error in the replay or in work around it: ") +
          (reason ? reason : "it gave no reason"));
    } else if (problem) {
      stream->deferError(problem(command_buffer));
    }
    stream->finishCheck();
  }];
}

void MPSReplayWatch::afterwards(void (^block)()) {
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer>) {
    block();
  }];
}

MPSStepEncoder::MPSStepEncoder(MPSStream* stream,
                               MPSReplayWatch& watch,
                               const MPSReplayRefreshes& refreshes,
                               id<MTLBuffer> staging)
    : stream_(stream), watch_(&watch), capture_(stream->recordingCapture()), refreshes_(refreshes), staging_(staging) {}

MPSStepEncoder::MPSStepEncoder(MPSCommandBuffer* command_buffer,
                               const MPSReplayRefreshes& refreshes,
                               id<MTLBuffer> staging)
    : command_buffer_(command_buffer), refreshes_(refreshes), staging_(staging) {}

MPSCommandBuffer* MPSStepEncoder::commandBuffer() const {
  return stream_ ? stream_->recordedCommandBuffer() : command_buffer_;
}

id<MTLComputeCommandEncoder> MPSStepEncoder::computeEncoder() {
  if (stream_) {
    return stream_->commandEncoder();
  }
  if (!compute_encoder_.get()) {
    compute_encoder_ = [command_buffer_ computeCommandEncoder];
  }
  return compute_encoder_.get();
}

void MPSStepEncoder::endComputeEncoder() {
  if (stream_) {
    stream_->endKernelCoalescing();
  } else {
    [compute_encoder_.get() endEncoding];
    compute_encoder_ = {};
  }
}

void MPSStepEncoder::setNames(std::vector<const char*> names) {
  names_ = std::move(names);
}

void MPSStepEncoder::encode(const MPSCommandStep& step) {
  // Each step of kernels holds the calls of one encoder, and all others need encoders of their own.
  endComputeEncoder();
  if (const auto* kernels = std::get_if<MPSKernelStep>(&step)) {
    (*this)(*kernels);
    return;
  }
  if (!names_.empty()) {
    setInnermostOperator(names_.front());
  }
  std::visit(*this, step);
  if (capture_) {
    capture_->recordStep(step); // The capture hears of kernels from the stream's encoder.
  }
}

void MPSStepEncoder::operator()(const MPSKernelStep& kernels) {
  using Kind = MPSEncoderCall::Kind;
  id<MTLComputeCommandEncoder> encoder = computeEncoder();
  size_t work = 0;
  for (const auto& call : kernels.calls) {
    if (call.isWork() && work < names_.size()) {
      setInnermostOperator(names_[work++]);
    }
    if (call.kind == Kind::SET_REFRESHED_BYTES) {
      bindRefreshed(*kernels.refreshed[call.value], call.index, encoder);
    } else if (call.kind != Kind::ENCODE_OBJECT) {
      encodeCall(encoder, kernels, call);
    } else if (capture_) {
      [(MPSRecordingEncoder*)encoder encodeObject:kernels.objects[call.value].get() toCommandBuffer:commandBuffer()];
    } else {
      kernels.objects[call.value].get()(commandBuffer(), encoder);
    }
  }
}

void MPSStepEncoder::bindRefreshed(const MPSRefreshedBytes& refreshed,
                                   NSUInteger index,
                                   id<MTLComputeCommandEncoder> encoder) {
  const size_t offset = refreshes_.offsetOf(&refreshed);
  if (!capture_) {
    [encoder setBuffer:staging_ offset:offset atIndex:index];
    return;
  }
  const char* bytes = static_cast<const char*>([staging_ contents]) + offset;
  auto& own = refreshed_[&refreshed];
  if (!own) {
    own = std::make_shared<const MPSRefreshedBytes>(refreshed);
  }
  [(MPSRecordingEncoder*)encoder setRefreshedBytes:own newBytes:bytes atIndex:index];
}

void MPSStepEncoder::watchNextCommandBuffer() {
  if (watch_) {
    watch_->watchCommandBuffer();
  }
}

void MPSStepEncoder::operator()(const MPSGraphRunStep& run) {
  encodeExecutable(run, commandBuffer());
  if (!executablesNeverCommit()) {
    watchNextCommandBuffer();
  }
}

void MPSStepEncoder::operator()(const MPSEncodeStep& object) {
  object.encode.get()(commandBuffer());
  watchNextCommandBuffer();
}

void MPSStepEncoder::operator()(const MPSCopyStep& copy) {
  id<MTLBlitCommandEncoder> encoder = [commandBuffer() blitCommandEncoder];
  encodeCopy(encoder, copy);
  [encoder endEncoding];
}

void MPSStepEncoder::operator()(const MPSFillStep& fill) {
  id<MTLBlitCommandEncoder> encoder = [commandBuffer() blitCommandEncoder];
  [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
  [encoder endEncoding];
}

void MPSStepEncoder::operator()(const MPSHostRefreshStep& refresh) {
  (*this)(MPSCopyStep{staging_, refresh.destination, refresh.length, refreshes_.offsetOf(&refresh), refresh.offset});
}

void MPSStepEncoder::operator()(const MPSStatusStep& status) {
  // The host looks at a copy, since the next replay may write the status again before.
  const size_t offset = refreshes_.offsetOf(&status);
  (*this)(MPSCopyStep{status.buffer, staging_, sizeof(int32_t), status.offset, offset});
  TORCH_INTERNAL_ASSERT(watch_);
  const auto message = status.message;
  id<MTLBuffer> staging = staging_;
  watch_->watch(^(id<MTLCommandBuffer>) {
    const auto value = *reinterpret_cast<const int32_t*>(static_cast<const char*>([staging contents]) + offset);
    return value == 0 ? std::string()
                      : "torch.mps graph replay: " + *message + " (status " + std::to_string(value) + ")";
  });
}

MPSCommandGraphReplay::MPSCommandGraphReplay(std::shared_ptr<const MPSCommandGraphRecording> recording,
                                             size_t encode_ahead,
                                             MPSStream* stream)
    : recording_(std::move(recording)), refreshes_(std::make_unique<const MPSReplayRefreshes>(recording_->steps)) {
  for (const auto& step : recording_->steps) {
    if (!refreshes_->isInFirstBlit(step)) {
      order_.push_back(&step);
    }
  }
  used_ = recording_->executables;
  // Off unless asked for, since no GPU has shown a gain.
  if (c10::utils::check_env("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS").value_or(false)) {
    useIndirectCommands(stream->device());
  }
  why_not_ahead_ = encode_ahead > 0 ? findWhyNotAhead() : "encode_ahead is 0";
  if (why_not_ahead_.empty()) {
    ready_ = std::make_shared<MPSReadyReplays>(encode_ahead, [this, stream] { return encodeReady(stream); });
  }
}

void MPSCommandGraphReplay::check() const {
  recording_->checkTensors();
  refreshes_->check();
}

void MPSCommandGraphReplay::dropReady() const {
  if (ready_) {
    ready_->drop();
  }
}

size_t MPSCommandGraphReplay::readyCount() const {
  return ready_ ? ready_->count() : 0;
}

size_t MPSCommandGraphReplay::stagingBytes() const {
  return refreshes_->stagingBytes();
}

void MPSCommandGraphReplay::useIndirectCommands(id<MTLDevice> device) {
  @autoreleasepool {
    NSMutableArray* used = [NSMutableArray arrayWithArray:used_.get()];
    for (auto& step : order_) {
      const auto* kernels = std::get_if<MPSKernelStep>(step);
      if (auto made = kernels ? withIndirectCommands(*kernels, device, used) : std::nullopt) {
        step = &indirect_.emplace_back(std::move(*made));
      }
    }
    used_ = [[used copy] autorelease];
  }
}

MPSCommandGraphReplay::~MPSCommandGraphReplay() {
  if (ready_) {
    ready_->close(); // it encodes what the members keep
  }
}

void MPSCommandGraphReplay::submit(MPSStream* stream) const {
  if (auto* capture = stream->recordingCapture()) {
    dropReady();
    capture->keepPart(recording_);
    submitInCapture(stream);
    return;
  }
  if (isCaptureUnderway() && active_capture.capture) {
    active_capture.capture->checkPool(*recording_);
  }
  const auto& profiler = getMPSProfiler();
  if (profiler.isCaptureEnabled() && profiler.isCapturing()) {
    dropReady(); // Metal's trace has only command buffers that were made during the trace
  }
  auto ready = ready_ ? ready_->take() : std::nullopt;
  if (ready) {
    submitReady(stream, std::move(*ready));
    return;
  }
  submitNow(stream);
  if (ready_) {
    stream->synchronize(SyncType::COMMIT);
    ready_->prepare();
  }
}

void MPSCommandGraphReplay::submitNow(MPSStream* stream) const {
  auto staging = refreshes_->takeStaging(stream->device(), stream);
  refreshes_->write(staging.get());
  recording_->countReplay();
  stream->endKernelCoalescing();
  // The watch keeps the executables until the GPU is done: the graph may be dropped earlier.
  MPSReplayWatch watch(stream, used_.get());
  watch.watchCommandBuffer();
  MPSStepEncoder encoder(stream, watch, *refreshes_, staging.get());
  encode(encoder, stream->recordedCommandBuffer(), staging.get());
  watch.watchCommandBuffer();
  refreshes_->giveBackAfter(watch, std::move(staging));
  stream->commitAfter(recording_->origins.size());
}

void MPSCommandGraphReplay::submitInCapture(MPSStream* stream) const {
  auto staging = refreshes_->takeStaging(stream->device(), stream);
  refreshes_->write(staging.get());
  recording_->countReplay();
  std::vector<std::vector<const char*>> names(recording_->steps.size());
  for (const auto& origin : recording_->origins) {
    names[origin.step].push_back(origin.op);
  }
  MPSReplayWatch watch(stream, recording_->executables.get());
  watch.watchCommandBuffer();
  MPSStepEncoder encoder(stream, watch, *refreshes_, staging.get());
  for (const auto i : c10::irange(recording_->steps.size())) {
    encoder.setNames(std::move(names[i]));
    encoder.encode(recording_->steps[i]);
  }
}

void MPSCommandGraphReplay::submitReady(MPSStream* stream, MPSReadyReplay ready) const {
  refreshes_->write(ready.staging.get());
  recording_->countReplay();
  MPSReplayWatch watch(stream, used_.get(), ready.command_buffer.get());
  watch.watchCommandBuffer();
  refreshes_->giveBackAfter(watch, std::move(ready.staging));
  ready_->prepareAfter(ready.command_buffer.get().commandBuffer);
  stream->commitAfterEarlierWork(ready.command_buffer.get());
}

void MPSCommandGraphReplay::encode(MPSStepEncoder& encoder,
                                   MPSCommandBuffer* command_buffer,
                                   id<MTLBuffer> staging) const {
  constexpr size_t steps_per_pool = 32;
  refreshes_->encodeFirstBlit(command_buffer, staging);
  for (size_t begin = 0; begin < order_.size(); begin += steps_per_pool) {
    @autoreleasepool {
      for (const auto i : c10::irange(begin, std::min(begin + steps_per_pool, order_.size()))) {
        encoder.encode(*order_[i]);
      }
    }
  }
}

MPSReadyReplay MPSCommandGraphReplay::encodeReady(MPSStream* stream) const {
  MPSReadyReplay ready;
  ready.staging = refreshes_->takeStaging(stream->device());
  ready.command_buffer = [MPSCommandBuffer commandBufferFromCommandQueue:stream->commandQueue()];
  id<MTLCommandBuffer> first = ready.command_buffer.get().commandBuffer;
  MPSStepEncoder steps(ready.command_buffer.get(), *refreshes_, ready.staging.get());
  encode(steps, ready.command_buffer.get(), ready.staging.get());
  steps.endComputeEncoder();
  if (ready.command_buffer.get().commandBuffer != first) {
    const std::string error =
        "torch.mps graph replay: an MPSGraphExecutable committed work that was encoded ahead of its replay, so results "
        "of the graph may be wrong. Make the graph with encode_ahead=0.";
    stream->deferError(error);
    TORCH_CHECK(false, error);
  }
  return ready;
}

std::string MPSCommandGraphReplay::findWhyNotAhead() const {
  for (const auto& origin : recording_->origins) {
    const auto& step = recording_->steps[origin.step];
    const auto* kernels = std::get_if<MPSKernelStep>(&step);
    if (std::holds_alternative<MPSEncodeStep>(step) || (kernels && !kernels->objects.empty())) {
      return std::string(origin.op) + " uses an MPS kernel object, which is encoded on the stream's queue";
    }
    if (std::holds_alternative<MPSStatusStep>(step)) {
      return std::string(origin.op) + " reads a status after each replay";
    }
  }
  if (recording_->executables.get().count > 0 && !executablesNeverCommit()) {
    return "this version of macOS can't keep an MPSGraphExecutable from committing";
  }
  return "";
}

} // namespace at::mps
