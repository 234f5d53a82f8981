#pragma once

#include "metal/command.h"

#include <ATen/core/Tensor.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <cstdint>
#include <vector>

namespace mps_simulator {

// Where the elements of an MPSNDArray are; graph/ and the kernels read it.
struct NDArrayView {
  id<MTLBuffer> buffer = nil; // owned by the array
  int64_t byte_offset = 0;
  std::vector<int64_t> sizes; // slowest dimension first, like a shape
  std::vector<int64_t> strides; // in elements
  MPSDataType data_type = MPSDataTypeInvalid;

  // A CPU tensor over this memory: use it on the GPU thread only, or when the
  // GPU has nothing to do with it.
  at::Tensor tensor() const;
  // All of its elements, and what lies between them.
  ByteAccess access(bool writes) const;
  // Violation when an element lies outside of the buffer.
  void check_bounds(const char* function) const;
};

// Checks the bounds, which the initializers do not: callers make arrays that
// are too large and then take a view that fits.
NDArrayView view_of(MPSNDArray* array);

} // namespace mps_simulator
