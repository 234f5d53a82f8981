#pragma once

// Replays of single steps. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSReplayRefreshes.h>
#include <ATen/mps/MPSReplayWatch.h>
#include <ATen/mps/MPSStream.h>

#include <memory>
#include <unordered_map>

namespace at::mps {

class MPSGraphCapture;

/// Encodes recorded steps one by one, for one replay: to the stream, on its
/// queue, or to a command buffer that is committed later, on any thread. Inside
/// the capture of another graph they become steps of that one.
class MPSStepEncoder {
 public:
  /// `refreshes` are those of the steps, and `staging` is the buffer that its
  /// write() returned.
  MPSStepEncoder(
      MPSStream* stream,
      MPSReplayWatch& watch,
      const MPSReplayRefreshes& refreshes,
      id<MTLBuffer> staging);
  /// Encodes to `command_buffer`, which nothing else encodes to.
  MPSStepEncoder(
      MPSCommandBuffer* command_buffer,
      const MPSReplayRefreshes& refreshes,
      id<MTLBuffer> staging);

  void encode(const MPSCommandStep& step);

  // One overload for each kind of step.
  void operator()(const MPSKernelStep& kernel);
  void operator()(const MPSGraphRunStep& run);
  void operator()(const MPSCopyStep& copy);
  void operator()(const MPSFillStep& fill);
  void operator()(const MPSEncodeStep& object);
  void operator()(const MPSHostRefreshStep& refresh);
  void operator()(const MPSStatusStep& status);

  id<MTLComputeCommandEncoder> computeEncoder();
  void endComputeEncoder();
  /// Lets the GPU begin with what is encoded so far, if it goes to the stream.
  void commit();

 private:
  MPSCommandBuffer* commandBuffer() const;
  void bindRefreshed(
      const MPSKernelBinding& binding,
      id<MTLComputeCommandEncoder> encoder);

  // null, as the watch, for a command buffer that is committed later
  MPSStream* const stream_ = nullptr;
  MPSReplayWatch* const watch_ = nullptr;
  // null outside of captures
  MPSGraphCapture* const capture_ = nullptr;
  MPSCommandBuffer* const command_buffer_ = nil;
  MPSRetained<id<MTLComputeCommandEncoder>> compute_encoder_;
  const MPSReplayRefreshes& refreshes_;
  id<MTLBuffer> const staging_;
  // Each replay inside a capture refreshes its bytes by itself: maps those of
  // the graph to those of the capture.
  std::unordered_map<
      const MPSRefreshedBytes*,
      std::shared_ptr<const MPSRefreshedBytes>>
      refreshed_;
};

} // namespace at::mps
