#pragma once

#import <Metal/Metal.h>

#import "metal/device.h"

#include "shader/shader.h"

#include <memory>

@interface SimulatedFunction : SimulatedObject <MTLFunction> {
 @public
  std::shared_ptr<mps_simulator::shader::Function> _function;
}
@end

@interface SimulatedLibrary : SimulatedObject <MTLLibrary> {
 @public
  std::shared_ptr<mps_simulator::shader::Library> _library;
}
@end

namespace mps_simulator {

// Nil and an error when the source does not compile.
SimulatedLibrary* new_library(const char* source, MTLCompileOptions* options, NSError** error);

// As checked_buffer(), for functions; nil is a violation too.
SimulatedFunction* checked_function(id<MTLFunction> object, const char* function);

} // namespace mps_simulator

@interface SimulatedComputePipelineState : NSObject <MTLComputePipelineState> {
 @public
  std::shared_ptr<mps_simulator::shader::Function> _function;
  NSUInteger _maxTotalThreadsPerThreadgroup;
  NSUInteger _staticThreadgroupMemoryLength;
  // The indices that the function's arguments have, as bits.
  uint32_t _bufferIndices;
  uint32_t _threadgroupIndices;
  bool _supportsIndirectCommandBuffers;
}
- (instancetype)initWithFunction:(id<MTLFunction>)function descriptor:(MTLComputePipelineDescriptor*)descriptor;
@end

namespace mps_simulator {

// As checked_buffer(), for pipelines.
SimulatedComputePipelineState* checked_pipeline(id<MTLComputePipelineState> pipeline, const char* function);

} // namespace mps_simulator

@interface SimulatedArgumentEncoder : SimulatedObject <MTLArgumentEncoder> {
 @private
  std::shared_ptr<mps_simulator::shader::Function> _function;
  unsigned _bufferIndex;
  NSUInteger _encodedLength;
  id<MTLBuffer> _argumentBuffer;
  char* _target;
}
- (instancetype)initWithFunction:(std::shared_ptr<mps_simulator::shader::Function>)function index:(unsigned)index;
@end
