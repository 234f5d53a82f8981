#pragma once

// What the Metal cases are made of. Everything returned is autoreleased.

#import <Metal/Metal.h>

#include "cases.h"
#include "support/one_thread.h"

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace mps_simulator::cases {

id<MTLDevice> metal_device();
id<MTLCommandQueue> metal_queue();
id<MTLBuffer> shared_buffer(NSUInteger length);
// A buffer with `count` floats first, first + 1, …
id<MTLBuffer> float_buffer(NSUInteger count, float first = 0);
float* floats(id<MTLBuffer> buffer);
id<MTLHeap> make_heap(NSUInteger size, MTLHazardTrackingMode mode = MTLHazardTrackingModeDefault);
id<MTLBuffer> heap_buffer(id<MTLHeap> heap, NSUInteger length);
id<MTLFunction> kernel(const char* source, const char* name);
id<MTLComputePipelineState> pipeline(const char* source, const char* name);

using Encoder = id<MTLComputeCommandEncoder>;
using Encode = std::function<void(Encoder)>;

// Commits the command buffer and waits until it has completed.
void finish(id<MTLCommandBuffer> buffer);
// Encodes with a compute encoder of a command buffer, and finishes that. The encoder ends also when an error is raised.
void run_compute(const Encode& encode, MTLDispatchType type = MTLDispatchTypeSerial);

// Binds buffers from index 0 on, and the kernel if there is one.
void bind(Encoder encoder, id<MTLComputePipelineState> state, const std::vector<id<MTLBuffer>>& buffers);
// One row of threads.
void dispatch(Encoder encoder, NSUInteger threads = 1, NSUInteger group = 1);
void blit(id<MTLCommandBuffer> buffer, const std::function<void(id<MTLBlitCommandEncoder>)>& encode);
// Copies bytes that lie at the same offset in both.
void copy(id<MTLCommandBuffer> buffer, id<MTLBuffer> from, id<MTLBuffer> to, NSUInteger size, NSUInteger offset = 0);

// out[i] = in[i] + bias, with `in` at 0, `out` at 1, `bias` at 2.
id<MTLComputePipelineState> add_pipeline();

// Encodes it with a bias.
void add_with_bias(Encoder encoder, id<MTLBuffer> in, id<MTLBuffer> out, NSUInteger threads = 4, float bias = 1);

// Kernels: add (out[i] = in[i] + 1), note (puts its name behind the others) and reverse (the data of a threadgroup).
extern const char* const kKernels;
id<MTLComputePipelineState> indirect_pipeline(const char* name, bool supports = true);
// Of both kinds of dispatches, which inherit nothing and have three buffers.
MTLIndirectCommandBufferDescriptor* indirect_descriptor();
id<MTLIndirectCommandBuffer> make_commands(NSUInteger count,
                                           MTLIndirectCommandBufferDescriptor* descriptor = indirect_descriptor());
// What eight kernels that noted their names left.
std::string digits(id<MTLBuffer> order);

void pause_briefly();
// Another thread uses the object until the end of the block.
class UsedElsewhere {
 public:
  explicit UsedElsewhere(OneThread& object);
  ~UsedElsewhere();

 private:
  std::promise<void> end_;
  std::thread thread_;
};

// Another value of a setting, until the end of the block.
template <typename Value>
class Setting {
 public:
  Setting(std::atomic<Value>& setting, Value value) : setting_(setting), before_(setting.exchange(value)) {}
  ~Setting() {
    setting_ = before_;
  }

 private:
  std::atomic<Value>& setting_;
  const Value before_;
};

// Everything committed to the queue waits until open() or the end of the block.
class Gate {
 public:
  explicit Gate(id<MTLCommandQueue> queue);
  ~Gate();
  void open();

 private:
  id<MTLSharedEvent> event_;
};

} // namespace mps_simulator::cases
