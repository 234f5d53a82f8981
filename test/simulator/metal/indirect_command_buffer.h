#pragma once

#import <Metal/Metal.h>

namespace mps_simulator {

id<MTLIndirectCommandBuffer> new_indirect_command_buffer(
    MTLIndirectCommandBufferDescriptor* descriptor,
    NSUInteger count,
    MTLResourceOptions options);

} // namespace mps_simulator
