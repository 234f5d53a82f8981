#pragma once

// Replays that are encoded before they are asked for. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace at::mps {

/// A replay that is encoded and not committed.
struct MPSReadyReplay {
  MPSRetained<MPSCommandBuffer*> command_buffer;
  // the buffer that the host writes before the commit, if there is one
  MPSRetained<id<MTLBuffer>> staging;
};

/// Encodes the next replays of one graph on another thread. A command queue has
/// a limit of uncompleted command buffers, 64 by default, at which making
/// another one blocks. So all graphs together hold at most kMostReady ready
/// replays; the graph that was replayed least recently loses its.
class MPSReadyReplays : public std::enable_shared_from_this<MPSReadyReplays> {
 public:
  static constexpr size_t kMostReady = 16;

  /// `encode` is called on one thread at a time, and not after close(). If it
  /// raises, no more replays are encoded ahead.
  MPSReadyReplays(size_t wanted, std::function<MPSReadyReplay()> encode);
  ~MPSReadyReplays();
  MPSReadyReplays(const MPSReadyReplays&) = delete;
  MPSReadyReplays& operator=(const MPSReadyReplays&) = delete;

  /// Starts to encode until as many as wanted are ready.
  void prepare();
  /// Likewise, once Metal has scheduled the command buffer, which is not
  /// committed yet: its caller need not wake another thread.
  void prepareAfter(id<MTLCommandBuffer> command_buffer);
  /// Waits for the one that is being encoded. None if there is none.
  std::optional<MPSReadyReplay> take();
  /// Drops all, without a commit. Waits for encode().
  void drop();
  /// Likewise, and encodes no more.
  void close();
  /// Those that are ready.
  size_t count() const;

 private:
  struct All;
  static All& all();
  // that this graph is the one that was replayed last
  void noteReplay();
  void fill();
  // with the lock; those that make room go to `dropped`, to be freed without it
  void begin(std::deque<MPSReadyReplay>& dropped);
  void encodeOne();

  const size_t wanted_;
  const std::function<MPSReadyReplay()> encode_;
  // guarded by the lock of all()
  std::deque<MPSReadyReplay> ready_;
  size_t begun_ = 0;
  bool lacks_room_ = false;
  bool is_closed_ = false;
  // a scheduled handler will call fill()
  std::atomic<bool> is_due_{false};
};

} // namespace at::mps
