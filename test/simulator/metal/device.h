#pragma once

#import <Metal/Metal.h>

#include "metal/gpu.h"

#include <memory>

// What nearly all objects of Metal have.
@interface SimulatedObject : NSObject {
 @public
  NSString* _label;
}
@property(copy, atomic) NSString* label;
@property(readonly) id<MTLDevice> device;
@end

@interface SimulatedDevice : NSObject <MTLDevice>
@end

namespace mps_simulator {

// The one device of the process, which lives until the process ends.
SimulatedDevice* device();

// The object, which must be a live one of the class; otherwise a violation that calls it `what`.
id checked_object(id object, Class wanted, const char* what, const char* function);

// Raises a violation in a child of fork() whose parent had used the device.
void check_process(const char* function);

} // namespace mps_simulator

@interface SimulatedCommandQueue : SimulatedObject <MTLCommandQueue> {
 @private
  std::shared_ptr<mps_simulator::QueueState> _state;
}
@end
