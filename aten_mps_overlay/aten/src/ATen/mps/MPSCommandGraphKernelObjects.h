#pragma once

// MPS kernel objects, which encode themselves. Objective-C++ only.

#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSStream.h>

#include <string>

namespace at::mps {

/// Calls `encode`, which encodes to the command buffer that it gets, now and in each replay. Must be called on the
/// stream's queue, with no encoder open.
void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>));
/// The same for what encodes with the stream's compute encoder and leaves it open
/// (encodeToCommandEncoder:commandBuffer:...).
void encodeAndRecordInEncoder(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>));
/// Reads a status that a kernel object has written, also during a capture: each replay looks at it again, and raises
/// `message` at the next synchronization if it isn't zero.
int readStatus(const Tensor& status, const std::string& message);

} // namespace at::mps
