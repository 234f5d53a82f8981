#pragma once

#import <Metal/Metal.h>

#include <functional>
#include <string>

namespace mps_simulator {

// Work of the GPU thread that is not a Metal encoder's own: an MPSGraph run, a
// matrix kernel. `label` is put in front of what it throws.
struct Command {
  std::string label;
  std::function<void()> run;
};

// Appends to the command buffer, or to its `rootCommandBuffer` where it has one
// (MPSCommandBuffer). A violation while an encoder is open on it or after its
// commit; `function` is the API call to blame.
void append_command(
    id<MTLCommandBuffer> command_buffer,
    Command command,
    const char* function = "append_command()");

// Keeps an object alive until the command buffer has completed.
void retain_until_completed(id<MTLCommandBuffer> command_buffer, id object);

// Says that the command appended last touches these bytes of the buffer, and
// that the host must keep off them until it is done.
void note_access(
    id<MTLCommandBuffer> command_buffer,
    id<MTLBuffer> buffer,
    size_t begin,
    size_t end,
    bool writes);

// An exception thrown by a command ends its command buffer with status Error.
// -waitUntilCompleted on that buffer, or on a later one of its queue if nobody
// waited for that buffer, throws the exception again, once. Metal never throws
// there, so a caller written for Metal goes on as if its buffer could still be
// used: MPSCommandBuffer must take a fresh root command buffer when it lets this
// exception pass.

} // namespace mps_simulator
