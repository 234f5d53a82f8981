// The objects behind the dispatch_…_t types.
#pragma once

#include "foundation/dispatch_queue.h"

#include <dispatch/dispatch.h>

#include <vector>

@interface SimulatorDispatchQueue : NSObject <OS_dispatch_queue> {
 @public
  std::shared_ptr<mps_simulator::BlockQueue> state;
}
@end

namespace mps_simulator {

// The state behind the queue; a violation if there is none.
BlockQueue& block_queue(dispatch_queue_t queue, const char* function);

// A block as a function that owns a copy of it.
std::function<void()> own_block(dispatch_block_t block, const char* function);

} // namespace mps_simulator
