#pragma once

// Where the data of MPSGraph runs lies. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>
#include <c10/util/ArrayRef.h>

#include <optional>

namespace at::mps {

/// Tells a capture that links graph runs where the data of an
/// MPSGraphTensorData or MPSNDArray lies: in the buffer, from `byte_offset` on,
/// with the given strides in elements, or dense. What a capture is not told of
/// is linked with nothing.
void noteLocation(
    id object,
    MPSShape* shape,
    MPSDataType type,
    id<MTLBuffer> buffer,
    size_t byte_offset = 0,
    std::optional<IntArrayRef> strides = std::nullopt);
/// The same for data in memory of its own.
void noteOwnPlace(id object, MPSShape* shape, MPSDataType type);
/// The same for data that lies where that of `other` does.
void noteLocationOf(id object, id other);

} // namespace at::mps
