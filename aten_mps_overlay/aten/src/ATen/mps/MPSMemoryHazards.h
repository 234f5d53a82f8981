#pragma once

// Which kernels must wait for which. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>

#include <utility>
#include <vector>

namespace at::mps {

/// Finds out where kernels that may run at the same time need a barrier: where one writes bytes that the other reads or
/// writes. Buffers do not tell, since those of a heap may lie on the same bytes.
class MPSMemoryHazards {
 public:
  /// The buffer and offset of each binding of a kernel, in their order; nil for bytes.
  using Arguments = std::vector<std::pair<id<MTLBuffer>, NSUInteger>>;

  /// Returns whether the kernel must wait for those before it.
  bool add(const MPSKernelStep& kernel, const Arguments& arguments);
  /// The same for work that may touch any memory.
  bool addUnknown();
  /// Forgets all: what comes waits for it anyway.
  void clear();

 private:
  struct Access {
    MPSByteRange bytes;
    bool writes;

    bool conflictsWith(const Access& other) const {
      return (writes || other.writes) && bytes.overlaps(other.bytes);
    }
  };
  bool add(const std::vector<Access>& accesses, bool must_wait);
  bool conflicts(const std::vector<Access>& accesses) const;

  // since the last barrier
  std::vector<Access> accesses_;
  bool has_unknown_ = false;
};

} // namespace at::mps
