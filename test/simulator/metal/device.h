#pragma once

#import <Metal/Metal.h>

@interface SimulatedDevice : NSObject <MTLDevice>
@end

namespace mps_simulator {

// The one device of the process, which lives until the process ends.
SimulatedDevice* device();

// Raises a violation in a child of fork() whose parent had used the device.
void check_process(const char* function);

} // namespace mps_simulator
