// An extension that uses torch's own functions for Metal code (torch/mps.h),
// which ask the hooks and so reach the backend that is in charge.

#include <torch/library.h>
#include <torch/mps.h>

#import <Metal/Metal.h>

#include <ATen/core/Tensor.h>

namespace {

at::Tensor fill_by_blit(at::Tensor tensor) {
  @autoreleasepool {
    auto queue = reinterpret_cast<dispatch_queue_t>(torch::mps::get_dispatch_queue());
    dispatch_sync(queue, ^() {
      id<MTLCommandBuffer> commands = reinterpret_cast<id<MTLCommandBuffer>>(torch::mps::get_command_buffer());
      id<MTLBlitCommandEncoder> encoder = [commands blitCommandEncoder];
      id<MTLBuffer> buffer = reinterpret_cast<id<MTLBuffer>>(tensor.storage().data_ptr().get());
      [encoder fillBuffer:buffer range:NSMakeRange(0, tensor.nbytes()) value:7];
      [encoder endEncoding];
      torch::mps::commit();
    });
  }
  return tensor;
}

} // namespace

TORCH_LIBRARY(layered_extension, library) {
  library.def("fill_by_blit(Tensor tensor) -> Tensor");
}

TORCH_LIBRARY_IMPL(layered_extension, MPS, library) {
  library.impl("fill_by_blit", TORCH_FN(fill_by_blit));
}
