// What is behind MPSGraphExecutable, and the calls of one by another.
#pragma once

#include "graph/executable_use.h"
#include "graph/plan.h"

namespace mps_simulator::graph {

// What specializing or compiling gives; commands share it with the executable.
struct Compiled {
  std::shared_ptr<const Plan> plan;
  std::vector<TensorType> feed_types;
  std::vector<TensorType> target_types;
};

TensorType to_type(MPSGraphShapedType* shaped);

// The plan with the executables that it calls; `life` records them.
std::shared_ptr<const Plan> resolve_calls(const Plan& plan,
                                          NSDictionary<NSString*, MPSGraphExecutable*>* callables,
                                          ExecutableLife& life);

// Violation if an executable that is called is gone.
void check_called(const char* method, const ExecutableLife& life);

} // namespace mps_simulator::graph

@interface MPSGraphExecutable () {
 @public
  MPSGraph* _graph; // retained: it owns the tensors
  std::vector<MPSGraphTensor*> _feeds;
  std::vector<MPSGraphTensor*> _targets;
  mps_simulator::graph::Compiled _compiled;
  std::shared_ptr<mps_simulator::graph::ExecutableLife> _life;
}
@end
