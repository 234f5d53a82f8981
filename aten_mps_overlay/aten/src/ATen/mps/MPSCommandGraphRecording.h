#pragma once

// What a capture records, and replays of it. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphGradients.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/mps/MPSCommandGraphInputs.h>
#include <ATen/mps/MPSCommandGraphMemory.h>
#include <ATen/mps/MPSStream.h>

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace at::mps {

class MPSHostRefresh;

/// Owns one reference to an Objective-C object, for containers of C++ values.
template <typename T>
class MPSRetained {
 public:
  MPSRetained() = default;
  /* implicit */ MPSRetained(T object) : object_([object retain]) {}
  MPSRetained(const MPSRetained& other) : object_([other.object_ retain]) {}
  MPSRetained(MPSRetained&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
  MPSRetained& operator=(MPSRetained other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~MPSRetained() {
    [object_ release];
  }

  T get() const {
    return object_;
  }
  bool operator==(const MPSRetained& other) const {
    return object_ == other.object_;
  }

 private:
  T object_ = nil;
};

/// Bytes that a kernel takes by setBytes: and that the host writes for each replay. What was bound once is one of
/// these, however many dispatches read it.
struct MPSRefreshedBytes {
  std::shared_ptr<MPSHostRefresh> refresh;
  size_t length = 0;
};

/// One call that a compute encoder received.
struct MPSEncoderCall {
  enum class Kind : uint8_t {
    SET_PIPELINE,
    SET_BUFFER,
    SET_BUFFERS,
    SET_BUFFER_OFFSET,
    SET_BYTES,
    SET_REFRESHED_BYTES,
    SET_THREADGROUP_MEMORY,
    USE_RESOURCE,
    USE_RESOURCES,
    BARRIER,
    BARRIER_FOR_RESOURCES,
    ENCODE_OBJECT,
    DISPATCH_THREADS,
    DISPATCH_THREADGROUPS,
    DISPATCH_INDIRECT,
  };
  Kind kind;
  // the index of an argument, or the usage of several resources
  uint8_t index = 0;
  // a length in bytes, a number of objects, a usage or a scope
  uint32_t count = 0;
  // the pipeline, buffer or resource
  id object = nil;
  // an offset in bytes, or where the bytes, objects or sizes lie in the step's data
  size_t value = 0;

  /// True if the GPU works for the call: for a dispatch or a kernel object.
  bool isWork() const {
    return kind >= Kind::ENCODE_OBJECT;
  }
};

/// All calls that one compute encoder received, in order. State of an encoder stays until it is replaced, so a replay
/// that sends the same calls to an encoder dispatches the same kernels.
struct MPSKernelStep {
  std::vector<MPSEncoderCall> calls;
  // bytes of setBytes:, arrays of objects, and sizes of dispatches, all of them aligned to 8 bytes
  std::vector<uint64_t> data;
  // what the calls SET_REFRESHED_BYTES name by their value
  std::vector<std::shared_ptr<const MPSRefreshedBytes>> refreshed;
  // what the calls ENCODE_OBJECT name by their value: MPS kernel objects that encode themselves
  std::vector<MPSRetained<void (^)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>)>> objects;
  size_t dispatches = 0;

  template <typename T>
  const T* at(const MPSEncoderCall& call) const {
    return reinterpret_cast<const T*>(data.data() + call.value);
  }
};

/// One run of an MPSGraph, as an executable.
struct MPSGraphRunStep {
  MPSRetained<MPSGraphExecutable*> executable;
  MPSRetained<NSArray<MPSGraphTensorData*>*> inputs;
  MPSRetained<NSArray<MPSGraphTensorData*>*> results;
};

struct MPSCopyStep {
  MPSRetained<id<MTLBuffer>> source;
  MPSRetained<id<MTLBuffer>> destination;
  size_t length = 0;
  size_t source_offset = 0;
  size_t destination_offset = 0;
};

struct MPSFillStep {
  MPSRetained<id<MTLBuffer>> buffer;
  uint8_t value = 0;
  size_t length = 0;
  size_t offset = 0;
};

/// An MPS kernel object with its operands, which encodes itself to a command buffer.
struct MPSEncodeStep {
  MPSRetained<void (^)(id<MTLCommandBuffer>)> encode;
};

/// Bytes that the host writes for each replay, and that the GPU then copies to `destination`.
struct MPSHostRefreshStep {
  std::shared_ptr<MPSHostRefresh> refresh;
  MPSRetained<id<MTLBuffer>> destination;
  size_t length = 0;
  size_t offset = 0;
  // nothing but this step writes to the destination, and only the steps that follow it read it
  bool owns_destination = false;
};

/// A number of 32 bits that work before it leaves for the host. Anything but zero is an error, which the next
/// synchronization raises.
struct MPSStatusStep {
  MPSRetained<id<MTLBuffer>> buffer;
  size_t offset = 0;
  // shared with completion handlers, which may run after the graph is gone
  std::shared_ptr<const std::string> message;
};

using MPSCommandStep = std::
    variant<MPSKernelStep, MPSGraphRunStep, MPSCopyStep, MPSFillStep, MPSEncodeStep, MPSHostRefreshStep, MPSStatusStep>;

// Encode a step as it was recorded.

/// In the pieces that MPSStream::copy uses: a blit of 4 GiB or more fails without an error.
void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy);
/// Sends one call to the encoder. SET_REFRESHED_BYTES and ENCODE_OBJECT are up to the caller.
void encodeCall(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernels, const MPSEncoderCall& call);

/// Where an MPSRecordingEncoder puts what it sees.
struct MPSKernelRecorder {
  virtual ~MPSKernelRecorder() = default;
  /// Returns the step that takes all calls of an encoder. It must stay where it is until the encoder is gone.
  virtual MPSKernelStep& beginKernels() = 0;
  /// Is told of each dispatch or kernel object in the step.
  virtual void recordWork() = 0;
  /// Keeps a pipeline, buffer or resource that a call names, and the memory behind it.
  virtual void keepObject(id object) = 0;
  /// Is asked of bytes that get bound whether a replay is to have new ones; null if it is to have the same.
  virtual std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) = 0;
  /// Called for a forwarded call that can't be recorded. The capture must then fail.
  virtual void refuse(const std::string& reason) = 0;
};

} // namespace at::mps

/**
 * Forwards every call to the encoder it stands in for, and records the call.
 *
 * Does not declare MTLComputeCommandEncoder, so that it need not implement all of it. A method that is neither written
 * out here nor known to be harmless reaches forwardingTargetForSelector: and is refused. All calls come on the stream's
 * queue. `recorder` must outlive the last one.
 */
@interface MPSRecordingEncoder : NSObject

- (instancetype)initWithEncoder:(id<MTLComputeCommandEncoder>)encoder recorder:(at::mps::MPSKernelRecorder*)recorder;

/// As setBytes:length:atIndex:, for bytes of which it is known that each replay gets new ones.
- (void)setRefreshedBytes:(std::shared_ptr<const at::mps::MPSRefreshedBytes>)refreshed
                 newBytes:(const void*)bytes
                  atIndex:(NSUInteger)index;

/// Lets an MPS kernel object encode with the encoder that this one stands in for.
- (void)encodeObject:(void (^)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>))encode
     toCommandBuffer:(id<MTLCommandBuffer>)commandBuffer;

@end

namespace at::mps {

/// The steps and the memory that they need. A capture fills it in, and replays refer to its steps.
struct MPSCommandGraphRecording {
  /// Who submitted a dispatch, or a step that is no kernel.
  struct Origin {
    // its position in `steps`
    size_t step = 0;
    // the operator, or ""
    const char* op = "";
  };

  std::deque<MPSCommandStep> steps;
  // in the order in which they were recorded
  std::vector<Origin> origins;
  // by origin: where the program called the operator; for debug dumps
  std::vector<std::shared_ptr<c10::GatheredContext>> lines;
  // what the origins point to
  std::unordered_set<std::string> names;
  // the pipelines, buffers and resources of the kernels, each once
  std::unordered_map<const void*, MPSRetained<id>> objects;
  // how many of the steps copy what the block made on the host, which is the same each time
  size_t constants = 0;
  // the executables of the graph runs, each once
  MPSRetained<NSArray*> executables;
  // memory that the steps read or write: blocks of the allocator, and host memory that is copied to the device
  MPSPinnedBuffers pinned;
  std::optional<MPSPoolReference> pool;
  std::optional<MPSOverwrites> overwrites;
  MPSCommandGraphInputs inputs;
  MPSHostInputs host_inputs;
  // with those that parts write
  MPSWrittenGradients gradients;
  // graphs that were replayed inside the capture
  std::vector<std::shared_ptr<const MPSCommandGraphRecording>> parts;

  /// Raises when a tensor that the steps use has moved.
  void checkTensors() const {
    checkInputs();
    gradients.check();
  }
  void checkInputs() const {
    inputs.check();
    host_inputs.check();
    for (const auto& part : parts) {
      part->checkInputs();
    }
  }
  /// Counts a replay of the steps, which writes the tensors of `parts`, too.
  void countReplay() const {
    overwrites->countReplay();
    inputs.countReplay();
    for (const auto& part : parts) {
      part->countReplay();
    }
  }
  /// True if the steps use the buffer, which existed before the capture.
  bool keeps(const void* buffer) const {
    return pinned.contains(buffer) ||
        std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part->keeps(buffer); });
  }
  /// True if its memory, or that of a part, comes from the pool.
  bool usesPool(const IMPSAllocator::CapturePoolId& other) const {
    return pool->pool() == other ||
        std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part->usesPool(other); });
  }
};

/// Looks for errors in each command buffer that a replay encodes to: an executable or a kernel object may commit one
/// and go on in the next. Keeps an object until the GPU is done with all of them.
class MPSReplayWatch {
 public:
  /// Watches the command buffers of the stream, or the one that is given.
  MPSReplayWatch(MPSStream* stream, NSObject* kept, MPSCommandBuffer* command_buffer = nil)
      : stream_(stream), kept_(kept), command_buffer_(command_buffer) {}

  /// Watches the current command buffer, if it is a new one. Call it before the first step, and after each step that
  /// may have committed.
  void watchCommandBuffer();
  /// When the current command buffer completes, keeps its error, or the one that `problem` finds, for the next call
  /// that waits for the GPU. After watchCommandBuffer().
  void watch(std::string (^problem)(id<MTLCommandBuffer>));
  /// Calls the block when the GPU is done with the last one.
  void afterwards(void (^block)());
  id<MTLCommandBuffer> last() const {
    return watched_.get();
  }

 private:
  MPSStream* const stream_;
  NSObject* const kept_;
  MPSCommandBuffer* const command_buffer_;
  MPSRetained<id<MTLCommandBuffer>> watched_;
};

class MPSCommandGraphCapture;
class MPSReplayRefreshes;

/// Encodes recorded steps, for one replay: to the stream, on its
/// queue, or to a command buffer that is committed later, on any thread. Inside
/// the capture of another graph they become steps of that one.
class MPSStepEncoder {
 public:
  /// `refreshes` are those of the steps, and `staging` is the buffer that its
  /// write() returned.
  MPSStepEncoder(MPSStream* stream, MPSReplayWatch& watch, const MPSReplayRefreshes& refreshes, id<MTLBuffer> staging);
  /// Encodes to `command_buffer`, which nothing else encodes to.
  MPSStepEncoder(MPSCommandBuffer* command_buffer, const MPSReplayRefreshes& refreshes, id<MTLBuffer> staging);

  void encode(const MPSCommandStep& step);
  /// Inside a capture: the operators of the work of the next step.
  void setNames(std::vector<const char*> names);

  // One overload for each kind of step.
  void operator()(const MPSKernelStep& kernels);
  void operator()(const MPSGraphRunStep& run);
  void operator()(const MPSCopyStep& copy);
  void operator()(const MPSFillStep& fill);
  void operator()(const MPSEncodeStep& object);
  void operator()(const MPSHostRefreshStep& refresh);
  void operator()(const MPSStatusStep& status);

  void endComputeEncoder();

 private:
  MPSCommandBuffer* commandBuffer() const;
  id<MTLComputeCommandEncoder> computeEncoder();
  void bindRefreshed(const MPSRefreshedBytes& refreshed, NSUInteger index, id<MTLComputeCommandEncoder> encoder);
  // The step may have committed and gone on in another command buffer.
  void watchNextCommandBuffer();

  // null, as the watch, for a command buffer that is committed later
  MPSStream* const stream_ = nullptr;
  MPSReplayWatch* const watch_ = nullptr;
  // null outside of captures
  MPSCommandGraphCapture* const capture_ = nullptr;
  MPSCommandBuffer* const command_buffer_ = nil;
  MPSRetained<id<MTLComputeCommandEncoder>> compute_encoder_;
  std::vector<const char*> names_;
  const MPSReplayRefreshes& refreshes_;
  id<MTLBuffer> const staging_;
  // Each replay inside a capture refreshes its bytes by itself: maps those of
  // the graph to those of the capture.
  std::unordered_map<const MPSRefreshedBytes*, std::shared_ptr<const MPSRefreshedBytes>> refreshed_;
};

class MPSReadyReplays;
struct MPSReadyReplay;

/// Encodes a recording again, and keeps the recording alive. Immutable.
class MPSCommandGraphReplay {
 public:
  /// Keeps the next `encode_ahead` replays encoded.
  MPSCommandGraphReplay(std::shared_ptr<const MPSCommandGraphRecording> recording,
                        size_t encode_ahead,
                        MPSStream* stream);
  ~MPSCommandGraphReplay();

  bool isEmpty() const {
    return recording_->steps.empty();
  }
  /// Raises when a tensor that the steps use has moved, on the device or on the
  /// host.
  void check() const;
  /// Makes what the steps write the gradients of tensors again, as the captured
  /// block would. Off the queue: what was there instead may belong to an
  /// interpreter.
  void giveBackGradients() const {
    recording_->gradients.giveBack();
  }
  /// Encodes all steps, or takes a replay that is encoded already. Inside a capture the steps become part of that
  /// graph. Must run on the stream's queue.
  void submit(MPSStream* stream) const;
  /// Drops what is encoded ahead.
  void dropReady() const;
  size_t readyCount() const;
  /// Memory of the host's data of one ready replay.
  size_t stagingBytes() const;
  /// Why no replay is encoded ahead, "" if that is not so.
  const std::string& whyNotAhead() const {
    return why_not_ahead_;
  }

 private:
  void useIndirectCommands(id<MTLDevice> device);
  std::string findWhyNotAhead() const;
  // On any thread; nothing of it is committed.
  MPSReadyReplay encodeReady(MPSStream* stream) const;
  void encode(MPSStepEncoder& encoder, MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const;
  void submitNow(MPSStream* stream) const;
  void submitInCapture(MPSStream* stream) const;
  void submitReady(MPSStream* stream, MPSReadyReplay ready) const;

  const std::shared_ptr<const MPSCommandGraphRecording> recording_;
  const std::unique_ptr<const MPSReplayRefreshes> refreshes_;
  // all but those in the first blit
  std::vector<const MPSCommandStep*> order_;
  // steps with indirect commands, which are in the order in place of others
  std::deque<MPSCommandStep> indirect_;
  // what the GPU needs until it is done: executables, and what indirect command buffers use
  MPSRetained<NSArray*> used_;
  std::string why_not_ahead_;
  std::shared_ptr<MPSReadyReplays> ready_;
};

} // namespace at::mps
