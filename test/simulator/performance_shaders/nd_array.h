#pragma once

#include "metal/command.h"

#include <ATen/core/Tensor.h>
#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace mps_simulator {

// Metal allows no more dimensions than these.
constexpr NSUInteger kMaximumDimensions = 16;

// What a descriptor says about the array that it is applied to. Dimension 0 is
// the fastest moving one.
struct DimensionPlan {
  struct Dimension {
    NSUInteger length;
    MPSDimensionSlice slice;
    NSUInteger source; // dimension of the array it came from
  };
  std::vector<Dimension> dimensions;
  // The lengths do not belong to the dimensions of the source any more.
  bool reshaped = false;
};

const DimensionPlan& plan_of(MPSNDArrayDescriptor* descriptor);

std::vector<int64_t> to_integers(NSArray<NSNumber*>* shape);
NSArray<NSNumber*>* to_numbers(const std::vector<int64_t>& values);

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
};

// A violation when an element lies outside of the buffer. That is checked here
// and not by the initializers, because callers make arrays that are too large
// and then take a view that fits.
NDArrayView view_of(MPSNDArray* array);

// What the kernels need of arrays beyond their public methods.
void check_bounds(const NDArrayView& view, const char* function);

// The strides of the same elements in another shape, if there are any. A
// violation when the number of elements differs.
std::optional<std::vector<int64_t>> strides_of_reshape(
    const NDArrayView& view,
    const std::vector<int64_t>& sizes,
    const char* function);

MPSNDArray* alias_with_strides(MPSNDArray* array, std::vector<int64_t> sizes, std::vector<int64_t> strides);

MPSNDArray* new_array(id<MTLDevice> device, const std::vector<int64_t>& sizes, MPSDataType type);

// Encodes a copy of the elements, in the order of their indices.
void encode_copy(
    id<MTLCommandBuffer> command_buffer,
    id<MTLComputeCommandEncoder> encoder,
    MPSNDArray* source,
    MPSNDArray* destination,
    const char* function);
MPSNDArray* copy_with_sizes(
    MPSNDArray* array,
    const std::vector<int64_t>& sizes,
    id<MTLCommandBuffer> command_buffer,
    const char* function);

} // namespace mps_simulator
