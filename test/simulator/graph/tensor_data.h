// Where the data of a tensor is in memory.
#pragma once

#include "graph/operation.h"

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

} // namespace mps_simulator::graph
