#pragma once

// What a finished capture leaves behind: the steps and all that they need. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <ATen/mps/MPSStream.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace at::mps {

/// A tensor as it was recorded, to notice when its memory is no longer where it was.
class MPSWatchedTensor {
 public:
  explicit MPSWatchedTensor(const TensorBase& tensor);

  /// True when the tensor still lives but its storage was reallocated, shrunk or replaced.
  bool moved() const;
  const void* data() const {
    return data_;
  }
  /// Says how the tensor was recorded and how it is now.
  std::string describe() const;

 private:
  c10::weak_intrusive_ptr<TensorImpl, UndefinedTensorImpl> tensor_;
  const void* data_;
  size_t nbytes_;
  ScalarType dtype_;
  std::vector<int64_t> sizes_;
};

/// Keeps blocks of the allocator away from others until it is destroyed.
class MPSPinnedBuffers {
 public:
  MPSPinnedBuffers() = default;
  MPSPinnedBuffers(const MPSPinnedBuffers&) = delete;
  MPSPinnedBuffers& operator=(const MPSPinnedBuffers&) = delete;
  ~MPSPinnedBuffers();

  bool contains(const void* buffer) const {
    return buffers_.count(buffer) > 0;
  }
  /// Takes over one pin; returns false, and takes nothing, when the buffer is here already.
  bool adopt(const void* buffer) {
    return buffers_.insert(buffer).second;
  }
  const std::unordered_set<const void*>& buffers() const {
    return buffers_;
  }

 private:
  std::unordered_set<const void*> buffers_;
};

/// One encoder call of a replay.
struct MPSEncoderCall {
  enum class Kind {
    SET_PIPELINE,
    SET_BUFFER,
    SET_BUFFER_OFFSET,
    SET_BYTES,
    SET_THREADGROUP_MEMORY,
    USE_RESOURCE,
    MEMORY_BARRIER,
    DISPATCH,
    END_ENCODER,
    RUN_GRAPH,
    COPY,
    FILL,
  };
  Kind kind;
  // the step that it belongs to, which owns every object used, and the entry of that step's list
  const MPSCommandStep* step;
  NSUInteger entry = 0;
};

class MPSCapturedWork {
 public:
  std::vector<MPSCommandStep> steps;
  // memory that the steps read or write: blocks of the allocator, and host memory that is copied to the device
  MPSPinnedBuffers pinned;
  std::vector<c10::Storage> host_sources;
  // work of other graphs that was replayed inside the capture
  std::vector<std::shared_ptr<const MPSCapturedWork>> parts;
  std::vector<MPSWatchedTensor> watched;
  size_t executables = 0;

  /// Compiles the graph runs and lays down the encoder calls of a replay. Call once, when all steps are there.
  void prepare(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor);
  /// Raises when a tensor that the steps use has moved.
  void checkStorages() const;
  /// Encodes all steps. Must run on the stream's queue.
  void encode(MPSStream* stream) const;

 private:
  void compileGraphRuns(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor);
  void planCalls();

  std::vector<MPSEncoderCall> calls_;
};

} // namespace at::mps
