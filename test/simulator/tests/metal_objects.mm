#import "metal_objects.h"

#include <chrono>
#include <thread>

namespace mps_simulator::cases {

id<MTLDevice> metal_device() {
  return [MTLCreateSystemDefaultDevice() autorelease];
}

id<MTLCommandQueue> metal_queue() {
  return [[metal_device() newCommandQueue] autorelease];
}

id<MTLBuffer> shared_buffer(NSUInteger length) {
  return [[metal_device() newBufferWithLength:length options:MTLResourceStorageModeShared] autorelease];
}

id<MTLBuffer> float_buffer(NSUInteger count, float first) {
  id<MTLBuffer> buffer = shared_buffer(count * sizeof(float));
  for (NSUInteger i = 0; i < count; ++i) {
    floats(buffer)[i] = first + static_cast<float>(i);
  }
  return buffer;
}

float* floats(id<MTLBuffer> buffer) {
  return static_cast<float*>([buffer contents]);
}

id<MTLHeap> make_heap(NSUInteger size, MTLHazardTrackingMode mode) {
  MTLHeapDescriptor* descriptor = [[[MTLHeapDescriptor alloc] init] autorelease];
  descriptor.size = size;
  descriptor.storageMode = MTLStorageModeShared;
  descriptor.hazardTrackingMode = mode;
  return [[metal_device() newHeapWithDescriptor:descriptor] autorelease];
}

id<MTLBuffer> heap_buffer(id<MTLHeap> heap, NSUInteger length) {
  return [[heap newBufferWithLength:length options:MTLResourceStorageModeShared] autorelease];
}

void finish(id<MTLCommandBuffer> buffer) {
  [buffer commit];
  [buffer waitUntilCompleted];
}

void run_compute(const Encode& encode, MTLDispatchType type) {
  id<MTLCommandBuffer> buffer = [metal_queue() commandBuffer];
  Encoder encoder = [buffer computeCommandEncoderWithDispatchType:type];
  try {
    encode(encoder);
  } catch (...) {
    [encoder endEncoding];
    throw;
  }
  [encoder endEncoding];
  finish(buffer);
}

id<MTLFunction> kernel(const char* source, const char* name) {
  NSError* error = nil;
  id<MTLLibrary> library = [[metal_device() newLibraryWithSource:[NSString stringWithUTF8String:source]
                                                         options:nil
                                                           error:&error] autorelease];
  if (!library) {
    fail(__FILE__, __LINE__, error.localizedDescription.UTF8String);
  }
  id<MTLFunction> function = [[library newFunctionWithName:[NSString stringWithUTF8String:name]] autorelease];
  CHECK(function != nil);
  return function;
}

id<MTLComputePipelineState> pipeline(const char* source, const char* name) {
  NSError* error = nil;
  id<MTLComputePipelineState> state = [[metal_device() newComputePipelineStateWithFunction:kernel(source, name)
                                                                                     error:&error] autorelease];
  CHECK(state != nil);
  return state;
}

id<MTLComputePipelineState> add_pipeline() {
  return pipeline(
      R"(
        #include <metal_stdlib>
        using namespace metal;
        kernel void add(device const float* in [[buffer(0)]],
                        device float* out [[buffer(1)]],
                        constant float& bias [[buffer(2)]],
                        uint i [[thread_position_in_grid]]) {
          out[i] = in[i] + bias;
        })",
      "add");
}

void bind(Encoder encoder, id<MTLComputePipelineState> state, const std::vector<id<MTLBuffer>>& buffers) {
  if (state) {
    [encoder setComputePipelineState:state];
  }
  for (NSUInteger i = 0; i < buffers.size(); ++i) {
    [encoder setBuffer:buffers[i] offset:0 atIndex:i];
  }
}

void dispatch(Encoder encoder, NSUInteger threads, NSUInteger group) {
  [encoder dispatchThreads:MTLSizeMake(threads, 1, 1) threadsPerThreadgroup:MTLSizeMake(group, 1, 1)];
}

void blit(id<MTLCommandBuffer> buffer, const std::function<void(id<MTLBlitCommandEncoder>)>& encode) {
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  encode(encoder);
  [encoder endEncoding];
}

void copy(id<MTLCommandBuffer> buffer, id<MTLBuffer> from, id<MTLBuffer> to, NSUInteger size, NSUInteger offset) {
  blit(buffer, [&](id<MTLBlitCommandEncoder> encoder) {
    [encoder copyFromBuffer:from sourceOffset:offset toBuffer:to destinationOffset:offset size:size];
  });
}

void add_with_bias(Encoder encoder, id<MTLBuffer> in, id<MTLBuffer> out, NSUInteger threads, float bias) {
  bind(encoder, add_pipeline(), {in, out});
  [encoder setBytes:&bias length:sizeof(bias) atIndex:2];
  dispatch(encoder, threads, 4);
}

const char* const kKernels = R"(
  #include <metal_stdlib>
  using namespace metal;
  kernel void add(device const float* in [[buffer(0)]],
                  device float* out [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
    out[i] = in[i] + 1;
  }
  kernel void note(device atomic_uint* count [[buffer(0)]],
                   device uint* order [[buffer(1)]],
                   constant float& name [[buffer(2)]]) {
    order[atomic_fetch_add_explicit(count, 1, memory_order_relaxed)] = uint(name);
  }
  kernel void reverse(device float* data [[buffer(0)]],
                      threadgroup float* scratch [[threadgroup(0)]],
                      uint i [[thread_position_in_grid]],
                      uint t [[thread_position_in_threadgroup]],
                      uint n [[threads_per_threadgroup]]) {
    scratch[t] = data[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    data[i] = scratch[n - 1 - t];
  })";

id<MTLComputePipelineState> indirect_pipeline(const char* name, bool supports) {
  MTLComputePipelineDescriptor* descriptor = [[[MTLComputePipelineDescriptor alloc] init] autorelease];
  descriptor.computeFunction = kernel(kKernels, name);
  descriptor.supportIndirectCommandBuffers = supports;
  NSError* error = nil;
  return [[metal_device() newComputePipelineStateWithDescriptor:descriptor options:0 reflection:nil
                                                          error:&error] autorelease];
}

MTLIndirectCommandBufferDescriptor* indirect_descriptor() {
  MTLIndirectCommandBufferDescriptor* result = [[[MTLIndirectCommandBufferDescriptor alloc] init] autorelease];
  result.commandTypes = MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  result.inheritPipelineState = NO;
  result.inheritBuffers = NO;
  result.maxKernelBufferBindCount = 3;
  return result;
}

id<MTLIndirectCommandBuffer> make_commands(NSUInteger count, MTLIndirectCommandBufferDescriptor* descriptor) {
  return [[metal_device() newIndirectCommandBufferWithDescriptor:descriptor
                                                 maxCommandCount:count
                                                         options:MTLResourceStorageModeShared] autorelease];
}

std::string digits(id<MTLBuffer> order) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += std::to_string(static_cast<uint32_t*>([order contents])[i]);
  }
  return text;
}

UsedElsewhere::UsedElsewhere(OneThread& object) {
  std::promise<void> begun;
  thread_ = std::thread([&, end = end_.get_future()] {
    const OneThread::Use use(object, __func__, "object");
    begun.set_value();
    end.wait();
  });
  begun.get_future().wait();
}

UsedElsewhere::~UsedElsewhere() {
  end_.set_value();
  thread_.join();
}

void pause_briefly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

Gate::Gate(id<MTLCommandQueue> queue) : event_([metal_device() newSharedEvent]) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer encodeWaitForEvent:event_ value:1];
  [buffer commit];
}

Gate::~Gate() {
  open();
  [event_ release];
}

void Gate::open() {
  event_.signaledValue = 1;
}

} // namespace mps_simulator::cases
