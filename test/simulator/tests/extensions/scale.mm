// A custom operator as an extension for macOS writes it, with no knowledge of
// the simulator: its own Metal kernel on the stream of torch::mps.

#include <Foundation/Foundation.h>
#include <Metal/Metal.h>
#include <torch/library.h>
#include <torch/mps.h>
#include <torch/types.h>

static NSString* const kSource = @R"METAL(
#include <metal_stdlib>
kernel void scale(
    device float* values [[buffer(0)]],
    constant float& factor [[buffer(1)]],
    uint position [[thread_position_in_grid]]) {
  values[position] *= factor;
}
)METAL";

static id<MTLComputePipelineState> scale_pipeline() {
  static id<MTLComputePipelineState> pipeline = [] {
    NSError* error = nil;
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    id<MTLLibrary> library = [device newLibraryWithSource:kSource options:nil error:&error];
    TORCH_CHECK(library, error.localizedDescription.UTF8String);
    id<MTLFunction> function = [library newFunctionWithName:@"scale"];
    return [device newComputePipelineStateWithFunction:function error:&error];
  }();
  return pipeline;
}

static torch::Tensor scale(const torch::Tensor& input, double factor) {
  torch::Tensor result = input.contiguous().clone();
  const float number = static_cast<float>(factor);
  @autoreleasepool {
    id<MTLCommandBuffer> commands = torch::mps::get_command_buffer();
    dispatch_sync(torch::mps::get_dispatch_queue(), ^() {
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      [encoder setComputePipelineState:scale_pipeline()];
      [encoder setBuffer:__builtin_bit_cast(id<MTLBuffer>, result.storage().data())
                  offset:result.storage_offset() * result.element_size()
                 atIndex:0];
      [encoder setBytes:&number length:sizeof(number) atIndex:1];
      [encoder dispatchThreads:MTLSizeMake(result.numel(), 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
      [encoder endEncoding];
      torch::mps::commit();
    });
  }
  return result;
}

static void wait_on_the_queue() {
  dispatch_sync(torch::mps::get_dispatch_queue(), ^() {
    torch::mps::synchronize();
  });
}

TORCH_LIBRARY(simulator_extension, library) {
  library.def("wait_on_the_queue() -> ()", wait_on_the_queue);
  library.def("scale(Tensor input, float factor) -> Tensor");
}

TORCH_LIBRARY_IMPL(simulator_extension, MPS, library) {
  library.impl("scale", scale);
}
