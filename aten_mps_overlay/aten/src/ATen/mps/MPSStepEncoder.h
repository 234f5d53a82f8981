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

/// Encodes recorded steps to the stream, one by one, for one replay. Inside the
/// capture of another graph they become steps of that one. All members must be
/// called on the stream's queue.
class MPSStepEncoder {
 public:
  /// `refreshes` are those of the steps, and `staging` is the buffer that its
  /// write() returned.
  MPSStepEncoder(
      MPSStream* stream,
      MPSReplayWatch& watch,
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

 private:
  void bindRefreshed(
      const MPSKernelBinding& binding,
      id<MTLComputeCommandEncoder> encoder);

  MPSStream* const stream_;
  // null outside of captures
  MPSGraphCapture* const capture_;
  MPSReplayWatch& watch_;
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
