#pragma once

#import <Metal/Metal.h>

#include "metal/command_buffer.h"

// What all encoders share. A command buffer has at most one open encoder: an
// encoder takes that place and frees it when it ends.
@interface SimulatedCommandEncoder : NSObject {
 @public
  SimulatedCommandBuffer* _commandBuffer;
  BOOL _ended;
  // The last call raised an error, so the program may not have reached endEncoding.
  bool _failed;
  NSUInteger _debugGroups;
  mps_simulator::GpuPass* _pass; // the command buffer's
}
- (instancetype)initWithCommandBuffer:(SimulatedCommandBuffer*)commandBuffer;
@property(copy, atomic) NSString* label;
@property(readonly) id<MTLDevice> device;
- (void)endEncoding;
- (void)insertDebugSignpost:(NSString*)string;
- (void)pushDebugGroup:(NSString*)string;
- (void)popDebugGroup;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

namespace mps_simulator {

// Around the work of a call: notes an error on the way out.
class EncoderCall {
 public:
  explicit EncoderCall(bool& failed) : failed_(failed) {
    failed_ = true;
  }
  void succeeded() {
    failed_ = false;
  }

 private:
  bool& failed_;
};

} // namespace mps_simulator

// First check of each method that encodes.
#define VALIDATE_ENCODING() VALIDATE(!_ended, "the encoder has ended")
