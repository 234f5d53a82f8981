#pragma once

#import <Metal/Metal.h>

#include "metal/gpu.h"

#include <memory>

@interface SimulatedCommandQueue : NSObject <MTLCommandQueue> {
 @private
  std::shared_ptr<mps_simulator::QueueState> _state;
}
- (instancetype)initWithMaxCommandBufferCount:(NSUInteger)count;
@end
