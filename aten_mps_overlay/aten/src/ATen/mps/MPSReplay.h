#pragma once

// Replays of a recording. Objective-C++ only.

#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSRecording.h>
#include <ATen/mps/MPSReplayPlanner.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace at::mps {

class MPSGraphCapture;

/// What an MPSCommandGraph does at a replay: a plan for the steps of a recording, which it keeps. It does not change
/// once it is made.
class MPSReplay {
 public:
  /// Joins graph runs, at most `link_limit` to one executable (none with 0; warns once if the system can't), and lays
  /// down the calls of a replay.
  MPSReplay(std::shared_ptr<const MPSRecording> recording,
            bool indirect_commands,
            size_t link_limit,
            MPSGraphPool pool,
            id<MTLDevice> device,
            MPSGraphCompilationDescriptor* descriptor);

  bool isEmpty() const {
    return recording_->steps.empty();
  }
  /// Graph runs that were joined, in the order of the steps.
  const std::vector<MPSLinkedRun>& linked() const {
    return linked_;
  }
  size_t linkMicroseconds() const {
    return link_microseconds_;
  }
  /// Raises when a tensor that the steps use has moved, on the device or on the host.
  void check() const {
    recording_->checkTensors();
    plan_->refreshes().check();
  }
  /// Makes what the steps write the gradients of tensors again, as the captured block would. Off the queue: what was
  /// there instead may belong to an interpreter.
  void giveBackGradients() const {
    recording_->giveBackGradients();
  }
  /// Encodes all steps. Must run on the stream's queue.
  void encode(MPSStream* stream) const;

 private:
  void link(size_t limit, MPSGraphPool pool, id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor);
  void encodeForCapture(MPSStream* stream,
                        MPSGraphCapture* capture,
                        MPSReplayWatch& watch,
                        id<MTLBuffer> staging) const;
  id<MTLBuffer> newStatusCopies(id<MTLDevice> device) const;
  void encodeStatusCopies(MPSStream* stream, id<MTLBuffer> copies) const;

  const std::shared_ptr<const MPSRecording> recording_;
  std::vector<MPSLinkedRun> linked_;
  size_t link_microseconds_ = 0;
  // refers to the steps, and to `linked_`
  std::optional<MPSReplayPlan> plan_;
  // what the GPU needs until it is done: executables, and what indirect command buffers use
  MPSRetained<NSArray*> used_;
  // those of the status checks, for handlers that may run after the graph is gone
  std::shared_ptr<const std::vector<std::string>> check_messages_;
};

/// Finds and compiles the stretches of graph runs; nothing if the system can't do that. MPSLinkedReplay.mm sets it.
using MPSRunLinker = std::optional<std::vector<MPSLinkedRun>> (*)(const MPSRecording& recording,
                                                                  id<MTLDevice> device,
                                                                  MPSGraphCompilationDescriptor* descriptor,
                                                                  MPSGraphPool pool,
                                                                  size_t limit);
extern MPSRunLinker run_linker;

} // namespace at::mps
