// What the kernels need of arrays beyond their public methods.
#pragma once

#include "performance_shaders/nd_array.h"

#include <optional>

namespace mps_simulator {

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
