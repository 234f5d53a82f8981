#pragma once

// Replays of a recording. Objective-C++ only.

#include <ATen/mps/MPSReadyReplays.h>
#include <ATen/mps/MPSRecording.h>
#include <ATen/mps/MPSReplayRefreshes.h>

#include <memory>
#include <string>

namespace at::mps {

class MPSStepEncoder;

/// Encodes a recording again, and keeps the recording alive. Immutable.
class MPSReplay {
 public:
  /// Keeps the next `encode_ahead` replays encoded.
  MPSReplay(std::shared_ptr<const MPSRecording> recording, size_t encode_ahead, MPSStream* stream);
  ~MPSReplay();

  bool isEmpty() const {
    return recording_->steps.empty();
  }
  /// Raises when a tensor that the steps use has moved, on the device or on the
  /// host.
  void check() const {
    recording_->checkTensors();
    refreshes_.check();
  }
  /// Makes what the steps write the gradients of tensors again, as the captured
  /// block would. Off the queue: what was there instead may belong to an
  /// interpreter.
  void giveBackGradients() const {
    recording_->written.giveBackGradients();
  }
  /// Encodes all steps, or takes a replay that is encoded already, and commits. Inside a capture the steps become part
  /// of that graph. Must run on the stream's queue.
  void submit(MPSStream* stream) const;
  /// Drops what is encoded ahead.
  void dropReady() const {
    if (ready_) {
      ready_->drop();
    }
  }
  size_t readyCount() const {
    return ready_ ? ready_->count() : 0;
  }
  /// Memory of the host's data of one ready replay.
  size_t stagingBytes() const {
    return refreshes_.stagingBytes();
  }
  /// Why no replay is encoded ahead, "" if that is not so.
  const std::string& whyNotAhead() const {
    return why_not_ahead_;
  }

 private:
  std::string findWhyNotAhead() const;
  // On any thread; nothing of it is committed.
  MPSReadyReplay encodeReady(MPSStream* stream) const;
  void encode(MPSStepEncoder& steps, MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const;
  void submitNow(MPSStream* stream) const;
  void submitReady(MPSStream* stream, MPSReadyReplay ready) const;

  const std::shared_ptr<const MPSRecording> recording_;
  const MPSReplayRefreshes refreshes_;
  std::string why_not_ahead_;
  std::shared_ptr<MPSReadyReplays> ready_;
};

} // namespace at::mps
