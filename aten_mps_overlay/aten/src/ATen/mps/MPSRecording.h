#pragma once

// What a capture leaves behind. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSGraphMemory.h>
#include <ATen/mps/MPSWatchedTensors.h>
#include <ATen/mps/MPSWrittenTensors.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace at::mps {

/// The steps and the memory that they need. A capture fills it in; nothing changes it once the capture has ended, and
/// replays refer to its steps.
struct MPSRecording {
  std::vector<MPSCommandStep> steps;
  // by step: the operator that submitted it, or ""
  std::vector<std::string> operators;
  // by step: the line of the program that called the operator, as "train.py:12 (step)", or ""; for debug dumps
  std::vector<std::string> lines;
  // how many of the steps copy what the block made on the host, which is the same each time
  size_t constants = 0;
  // the executables of the graph runs, each once
  MPSRetained<NSArray*> executables;
  // memory that the steps read or write: blocks of the allocator, and host memory that is copied to the device
  MPSPinnedBuffers pinned;
  std::optional<MPSPoolReference> pool;
  std::optional<MPSOverwrites> overwrites;
  MPSWatchedTensors watched;
  // with the gradients that parts write
  MPSWrittenTensors written;
  // graphs that were replayed inside the capture
  std::vector<std::shared_ptr<const MPSRecording>> parts;

  /// Raises when a tensor that the steps use has moved.
  void checkTensors() const {
    checkWatched();
    written.check();
  }
  void checkWatched() const {
    watched.check();
    for (const auto& part : parts) {
      part->checkWatched();
    }
  }
  /// Counts a replay of the steps, which writes the tensors of `parts`, too.
  void countReplay() const {
    overwrites->countReplay();
    written.countReplay();
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

} // namespace at::mps
