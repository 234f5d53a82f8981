#pragma once

#import <Metal/Metal.h>

#include "shader/shader.h"

#include <memory>

@interface SimulatedComputePipelineState : NSObject <MTLComputePipelineState> {
 @public
  std::shared_ptr<mps_simulator::shader::Function> _function;
  NSUInteger _maxTotalThreadsPerThreadgroup;
  NSUInteger _staticThreadgroupMemoryLength;
  // The indices that the function's arguments have, as bits.
  uint32_t _bufferIndices;
  uint32_t _threadgroupIndices;
  bool _supportsIndirectCommandBuffers;
  NSUInteger _threadgroupMultiple;
}
- (instancetype)initWithFunction:(id<MTLFunction>)function descriptor:(MTLComputePipelineDescriptor*)descriptor;
@end

namespace mps_simulator {

MTLComputePipelineReflection* pipeline_reflection(id<MTLFunction> function);

// As checked_buffer(), for pipelines.
SimulatedComputePipelineState* checked_pipeline(id<MTLComputePipelineState> pipeline, const char* function);

} // namespace mps_simulator
