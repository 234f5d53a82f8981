#pragma once

#import <Metal/Metal.h>

#include <functional>
#include <string>
#include <vector>

namespace mps_simulator {

// What a command touches, in bytes of the buffer.
struct ByteAccess {
  id<MTLBuffer> buffer; // not retained
  size_t begin;
  size_t end;
  bool writes;
};

// Work of the GPU thread that is not a Metal encoder's own: an MPSGraph run, a
// matrix kernel. `label` is put in front of what it throws.
struct Command {
  std::string label;
  std::function<void()> run;
  // Until it is done the host must not touch these bytes, nor may other
  // commands that are not ordered with it.
  std::vector<ByteAccess> accesses;
};

// Appends to the command buffer, or to its `rootCommandBuffer` where it has one (MPSCommandBuffer). A violation while
// an encoder is open on it or after its commit; `function` is the API call that errors name. With an encoder, the
// command is one of that encoder's, which drops its bindings.
void append_command(
    id<MTLCommandBuffer> command_buffer,
    Command command,
    const char* function = "append_command()",
    id<MTLComputeCommandEncoder> encoder = nil);

// Keeps an object alive until the command buffer has completed.
void retain_until_completed(id<MTLCommandBuffer> command_buffer, id object);

// An exception thrown by a command ends its command buffer with status Error.
// -waitUntilCompleted on that buffer, or on a later one of its queue if the
// program did not wait for that buffer, throws the exception again, once. Metal
// never throws there, so a caller written for Metal goes on as if its buffer
// could still be used: MPSCommandBuffer must take a fresh root command buffer
// when it lets this exception pass.

} // namespace mps_simulator
