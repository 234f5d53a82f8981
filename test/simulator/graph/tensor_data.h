// Where the data of a tensor is in memory, and results that are computed in their final place.
#pragma once

#include "graph/operation.h"

#include <cstddef>

namespace mps_simulator::graph {

struct TensorMemory {
  id<MTLBuffer> buffer = nil; // owned by the tensor data
  int64_t byte_offset = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides; // in elements
  at::ScalarType type = at::ScalarType::Undefined;

  // A tensor over this memory: use it on the GPU thread only.
  at::Tensor tensor() const;
};

// Valid as long as `data`, which never changes.
const TensorMemory& memory_of(MPSGraphTensorData* data);

// New memory for a result.
MPSGraphTensorData* make_tensor_data(id<MTLDevice> device, at::IntArrayRef sizes, at::ScalarType type);

// While it exists, the next tensor of exactly `bytes` bytes that ATen makes on
// this thread lies in `memory`, which must outlive it: the value of an
// expression is then computed in its final place. The caller must check whether
// ATen made such a tensor.
class ResultMemory {
 public:
  ResultMemory(void* memory, size_t bytes);
  ~ResultMemory();
  ResultMemory(const ResultMemory&) = delete;
  ResultMemory& operator=(const ResultMemory&) = delete;
};

} // namespace mps_simulator::graph
