#pragma once

// The steps of which a recording consists. Objective-C++ only.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

/// What one entry of a kernel's buffer table holds: a buffer, or bytes copied at encode.
struct MPSKernelBinding {
  NSUInteger index = 0;
  MPSRetained<id<MTLBuffer>> buffer;
  NSUInteger offset = 0;
  std::vector<uint8_t> bytes;
  bool holds_bytes = false;
  // if a replay is not to repeat the bytes but to get new ones
  std::shared_ptr<const MPSRefreshedBytes> refreshed;

  bool operator==(const MPSKernelBinding& other) const {
    return index == other.index && holds_bytes == other.holds_bytes && buffer == other.buffer &&
        offset == other.offset && bytes == other.bytes && refreshed == other.refreshed;
  }
};

struct MPSThreadgroupMemory {
  NSUInteger index = 0;
  NSUInteger length = 0;
};

struct MPSResourceUse {
  MPSRetained<id<MTLResource>> resource;
  MTLResourceUsage usage = MTLResourceUsageRead;
};

/// One compute dispatch with the whole encoder state that it ran with.
struct MPSKernelStep {
  enum class Size { THREADS, THREADGROUPS, INDIRECT };

  MPSRetained<id<MTLComputePipelineState>> pipeline;
  std::vector<MPSKernelBinding> bindings;
  std::vector<MPSThreadgroupMemory> threadgroup_memory;
  std::vector<MPSResourceUse> resources;
  // a memory barrier was asked for between the dispatch before and this one
  MTLBarrierScope barrier = 0;
  Size size_kind = Size::THREADS;
  MTLSize size = {0, 0, 0};
  MTLSize threadgroup = {0, 0, 0};
  MPSRetained<id<MTLBuffer>> indirect_buffer;
  NSUInteger indirect_offset = 0;
};

/// One run of an MPSGraph. `executable`, `inputs` and `results` are filled in when the capture ends.
struct MPSGraphRunStep {
  MPSRetained<MPSGraph*> graph;
  MPSRetained<NSDictionary*> feeds;
  MPSRetained<NSDictionary*> targets;
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

/// Something that encodes itself: an MPS kernel object with its operands.
struct MPSEncodeStep {
  // the second argument is nil unless `takes_encoder`
  MPSRetained<void (^)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>)> encode;
  // it goes on in the compute encoder that is open, and leaves it open
  bool takes_encoder = false;
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

/// Whether the step goes on in the compute encoder that is open, and leaves it open.
bool usesComputeEncoder(const MPSCommandStep& step);

// Encode a step as it was recorded.

/// In the pieces that MPSStream::copy uses: a blit of 4 GiB or more fails without an error.
void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy);
/// With all that the kernel needs bound.
void encodeDispatch(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernel);
/// In an encoder of its own, if it takes one.
void encodeAlone(MPSCommandBuffer* command_buffer, const MPSEncodeStep& step);

/// Once it has an executable.
void encodeRun(MPSCommandBuffer* command_buffer, const MPSGraphRunStep& run);

} // namespace at::mps
