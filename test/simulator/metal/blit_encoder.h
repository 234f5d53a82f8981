#pragma once

#import "metal/command_encoder.h"

@interface SimulatedBlitCommandEncoder
    : SimulatedCommandEncoder <MTLBlitCommandEncoder>
@end
