#pragma once

// MPS kernel objects, which encode themselves. Objective-C++ only.

#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSStream.h>

#include <string>

namespace at::mps {

/// Calls `encode`, which encodes to the command buffer that it gets, now and in each replay. Must be called on the
/// stream's queue, with no encoder open.
void encodeAndRecord(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>));
/// The same for what encodes with a compute encoder and leaves it open (encodeToCommandEncoder:commandBuffer:...).
/// Outside of captures that is the stream's own. Never hand the stream's encoder to a kernel object during a capture:
/// what memory it binds is its own affair.
void encodeAndRecordInEncoder(MPSStream* stream, void (^encode)(id<MTLCommandBuffer>, id<MTLComputeCommandEncoder>));
/// Reads a status that a kernel object has written, also during a capture: each replay looks at it again, and raises
/// `message` at the next synchronization if it isn't zero.
int readStatus(const Tensor& status, const std::string& message);

} // namespace at::mps
