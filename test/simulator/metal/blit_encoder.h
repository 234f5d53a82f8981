#pragma once

#import "metal/command_encoder.h"

@interface SimulatedBlitCommandEncoder : SimulatedCommandEncoder <MTLBlitCommandEncoder>
@end

// Changes indirect command buffers.
@interface SimulatedBlitCommandEncoder (Indirect)
@end
