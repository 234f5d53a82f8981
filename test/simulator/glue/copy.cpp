// at::native::copy_impl hands MPS copies to the backend only where it was
// compiled with USE_MPS; the wheel's would look for a kernel in copy_stub. This
// registration takes precedence whenever one of the two tensors is on MPS.

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/mps/Copy.h>
#include <torch/library.h>

namespace mps_simulator {
namespace {

bool is_same_view(const at::Tensor& self, const at::Tensor& source) {
  return self.is_alias_of(source) && self.storage_offset() == source.storage_offset() &&
      self.strides().equals(source.strides()) && self.sizes().equals(source.sizes()) &&
      self.scalar_type() == source.scalar_type() && self.is_conj() == source.is_conj() &&
      self.is_neg() == source.is_neg();
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source) || is_same_view(self, source)) {
    return self;
  }
  // Checks shapes and overlap as every copy does.
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

} // namespace mps_simulator
