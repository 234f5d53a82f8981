// An operator that a graph records: it encodes through the stream.

#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/OperationUtils.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

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
  at::mps::MPSStream* stream = at::mps::getCurrentMPSStream();
  // Only one thread encodes at a time. An exception may not leave a block of dispatch_sync(); this hands it on.
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    @autoreleasepool {
      // The stream's, so that it is neither ended nor committed here.
      id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
      [encoder setComputePipelineState:pipeline];
      bindTensor(encoder, out, 0);
      bindTensor(encoder, x, 1);
      bindTensor(encoder, y, 2);
      [encoder setBytes:&factor length:sizeof(factor) atIndex:3];
      const NSUInteger group = MIN(pipeline.maxTotalThreadsPerThreadgroup, NSUInteger(x.numel()));
      [encoder dispatchThreads:MTLSizeMake(x.numel(), 1, 1) threadsPerThreadgroup:MTLSizeMake(group, 1, 1)];
    }
  });
  return out;
}

// An operator, not a bare function: a graph learns from the dispatcher which tensors it must watch.
TORCH_LIBRARY(through_the_stream, m) {
  m.def("axpy(Tensor x, Tensor y, float a) -> Tensor");
}

TORCH_LIBRARY_IMPL(through_the_stream, MPS, m) {
  m.impl("axpy", axpy);
}
