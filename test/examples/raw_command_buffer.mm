// The same operator with an encoder of its own on the raw command buffer. It works in eager mode; a capture raises.

#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>
#include <torch/mps.h>

using namespace at::native::mps;

static MetalShaderLibrary library(R"MTL(
kernel void axpy(device float* out,
                 constant float* x,
                 constant float* y,
                 constant float& a,
                 uint i [[thread_position_in_grid]]) {
  out[i] = a * x[i] + y[i];
}
)MTL");

static void bindTensor(id<MTLComputeCommandEncoder> encoder, const at::Tensor& t, unsigned index) {
  [encoder setBuffer:getMTLBufferStorage(t) offset:t.storage_offset() * t.element_size() atIndex:index];
}

static at::Tensor axpy(const at::Tensor& x, const at::Tensor& y, double a) {
  TORCH_CHECK(x.is_mps() && y.is_mps() && x.sizes() == y.sizes(), "axpy: two tensors of one shape on MPS");
  TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat, "axpy: tensors of float");
  TORCH_CHECK(x.is_contiguous() && y.is_contiguous() && x.numel() > 0, "axpy: contiguous tensors with elements");
  at::Tensor out = at::empty_like(x);
  const float factor = static_cast<float>(a);
  id<MTLComputePipelineState> pipeline = library.getPipelineStateForFunc("axpy");
  dispatch_sync_with_rethrow(torch::mps::get_dispatch_queue(), ^() {
    @autoreleasepool {
      // Raises in a capture. Taken on the queue, where no other thread commits it meanwhile, and again for each use.
      id<MTLCommandBuffer> commands = torch::mps::get_command_buffer();
      // PyTorch keeps its encoder open for its next kernel, and a command buffer takes one encoder at a time.
      at::mps::getCurrentMPSStream()->endKernelCoalescing();
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      [encoder setComputePipelineState:pipeline];
      bindTensor(encoder, out, 0);
      bindTensor(encoder, x, 1);
      bindTensor(encoder, y, 2);
      [encoder setBytes:&factor length:sizeof(factor) atIndex:3];
      const NSUInteger group = MIN(pipeline.maxTotalThreadsPerThreadgroup, NSUInteger(x.numel()));
      [encoder dispatchThreads:MTLSizeMake(x.numel(), 1, 1) threadsPerThreadgroup:MTLSizeMake(group, 1, 1)];
      [encoder endEncoding];
      torch::mps::commit();
    }
  });
  return out;
}

TORCH_LIBRARY(raw_command_buffer, m) {
  m.def("axpy(Tensor x, Tensor y, float a) -> Tensor");
}

TORCH_LIBRARY_IMPL(raw_command_buffer, MPS, m) {
  m.impl("axpy", axpy);
}
