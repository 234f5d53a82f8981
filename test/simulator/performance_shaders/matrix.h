// The memory of an MPSMatrix.
#pragma once

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "metal/command.h"

#include <ATen/core/Tensor.h>

namespace mps_simulator {

struct MatrixView {
  explicit MatrixView(MPSMatrix* matrix);

  id<MTLBuffer> buffer; // owned by the matrix
  NSUInteger offset;
  NSUInteger rows;
  NSUInteger columns;
  NSUInteger row_bytes;
  NSUInteger matrix_bytes;
  MPSDataType data_type;
  // Those of the descriptor that the buffer has room for: callers hand in each
  // matrix of a batch with the descriptor of the whole batch.
  NSUInteger matrices;

  // On the GPU thread only.
  at::Tensor tensor(NSUInteger index, MTLOrigin origin, NSUInteger row_count, NSUInteger column_count) const;

  // The whole matrices from the first to the one before `end`.
  ByteAccess access(NSUInteger first, NSUInteger end, bool writes) const;

  void check_region(MTLOrigin origin,
                    NSUInteger row_count,
                    NSUInteger column_count,
                    const char* what,
                    const char* function) const;
};

} // namespace mps_simulator
