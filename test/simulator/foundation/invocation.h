#pragma once

#include "foundation/forwarding.h"

#include <Foundation/NSObject.h>

namespace mps_simulator {

// Hands the call in the frame to -forwardInvocation: and puts what that sets as
// the return value back into the frame.
void forward_invocation(id receiver, SEL selector, NSMethodSignature* signature, CallFrame& frame);

} // namespace mps_simulator
