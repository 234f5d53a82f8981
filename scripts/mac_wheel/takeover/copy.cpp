// Tensor.copy_ is a function of libtorch_cpu that calls the official backend's
// copy itself (aten/src/ATen/native/Copy.cpp). A kernel of the MPS key comes
// first wherever one of the two tensors is on the device.

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/mps/Copy.h>
#include <ATen/ops/copy_native.h>
#include <torch/library.h>

namespace torch_mps_graph {
namespace {

bool isOfTheBackend(const at::Tensor& tensor) {
  return (tensor.is_mps() || tensor.is_cpu()) && !tensor.is_quantized();
}

bool isSameView(const at::Tensor& self, const at::Tensor& source) {
  return self.is_alias_of(source) && self.storage_offset() == source.storage_offset() &&
      self.strides().equals(source.strides()) && self.sizes().equals(source.sizes()) &&
      self.scalar_type() == source.scalar_type() && self.is_conj() == source.is_conj() &&
      self.is_neg() == source.is_neg();
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  // It does not reach its MPS case with tensors that these are not.
  if (!isOfTheBackend(self) || !isOfTheBackend(source)) {
    return at::native::copy_(self, source, non_blocking);
  }
  if (self.is_same(source) || isSameView(self, source)) {
    return self;
  }
  // For its checks of shapes and overlaps.
  const auto iterator = at::TensorIteratorConfig()
                            .add_output(self)
                            .add_const_input(source)
                            .resize_outputs(false)
                            .check_all_same_dtype(false)
                            .check_all_same_device(false)
                            .build();
  if (iterator.numel() == 0) {
    return self;
  }
  return at::native::mps::mps_copy_(self, source, non_blocking);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, MPS, library) {
  library.impl("copy_", TORCH_FN(copy_));
}

} // namespace torch_mps_graph
