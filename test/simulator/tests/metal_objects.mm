#import "metal_objects.h"

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

id<MTLHeap> make_heap(NSUInteger size) {
  MTLHeapDescriptor* descriptor = [[[MTLHeapDescriptor alloc] init] autorelease];
  descriptor.size = size;
  descriptor.storageMode = MTLStorageModeShared;
  return [[metal_device() newHeapWithDescriptor:descriptor] autorelease];
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

Gate::Gate() : event_([metal_device() newSharedEvent]) {}

Gate::~Gate() {
  open();
  [event_ release];
}

void Gate::close(id<MTLCommandQueue> queue) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer encodeWaitForEvent:event_ value:1];
  [buffer commit];
}

void Gate::open() {
  event_.signaledValue = 1;
}

} // namespace mps_simulator::cases
