#pragma once

// Stands in for the compute encoder of the stream while a capture is underway. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>

#include <functional>
#include <string>

namespace at::mps {

/// Where an MPSRecordingEncoder puts what it sees.
struct MPSKernelRecorder {
  virtual ~MPSKernelRecorder() = default;
  /// Takes a dispatch that the encoder was just given.
  virtual void recordKernel(MPSKernelStep step) = 0;
  /// Is told of each buffer that gets bound, so that the memory behind it can be kept.
  virtual void useBuffer(id<MTLBuffer> buffer) = 0;
  /// Is asked of bytes that get bound whether a replay is to have new ones; null if it is to have the same.
  virtual std::shared_ptr<const MPSRefreshedBytes> refreshOf(const void* bytes, size_t length) = 0;
  /// Called for a forwarded call that can't be recorded. The capture must then fail.
  virtual void refuse(const std::string& reason) = 0;
};

} // namespace at::mps

/**
 * Forwards every call to the encoder it stands in for, and records each dispatch with the whole state it runs with:
 * encoder state stays until it is replaced, so what was set before the last pipeline change still counts.
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

@end
