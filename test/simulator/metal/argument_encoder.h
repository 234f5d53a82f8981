#pragma once

#import <Metal/Metal.h>

#include "shader/shader.h"

#include <memory>

@interface SimulatedArgumentEncoder : NSObject <MTLArgumentEncoder> {
 @private
  std::shared_ptr<mps_simulator::shader::Function> _function;
  unsigned _bufferIndex;
  NSUInteger _encodedLength;
  id<MTLBuffer> _argumentBuffer;
  char* _target;
}
- (instancetype)initWithFunction:(std::shared_ptr<mps_simulator::shader::Function>)function index:(unsigned)index;
@end
