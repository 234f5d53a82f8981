#pragma once

// What the Metal cases are made of. Everything returned is autoreleased.

#import <Metal/Metal.h>

#include "cases.h"

#include <functional>

namespace mps_simulator::cases {

id<MTLDevice> metal_device();
id<MTLCommandQueue> metal_queue();
id<MTLBuffer> shared_buffer(NSUInteger length);
// A buffer with `count` floats first, first + 1, …
id<MTLBuffer> float_buffer(NSUInteger count, float first = 0);
float* floats(id<MTLBuffer> buffer);
id<MTLHeap> make_heap(NSUInteger size);
id<MTLFunction> kernel(const char* source, const char* name);
id<MTLComputePipelineState> pipeline(const char* source, const char* name);

using Encoder = id<MTLComputeCommandEncoder>;
using Encode = std::function<void(Encoder)>;

// Commits the command buffer and waits until it has completed.
void finish(id<MTLCommandBuffer> buffer);
// Encodes with a compute encoder of a command buffer, and finishes that. The encoder ends also when an error is raised.
void run_compute(const Encode& encode, MTLDispatchType type = MTLDispatchTypeSerial);

// out[i] = in[i] + bias, with `in` at 0, `out` at 1, `bias` at 2.
id<MTLComputePipelineState> add_pipeline();

// Keeps the GPU busy until open() or the end of the block.
class Gate {
 public:
  Gate();
  ~Gate();
  // Everything committed to `queue` from now on waits.
  void close(id<MTLCommandQueue> queue);
  void open();

 private:
  id<MTLSharedEvent> event_;
};

} // namespace mps_simulator::cases
