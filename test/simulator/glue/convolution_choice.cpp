// torch._C._select_conv_backend asks this function which way a convolution will
// go. The wheel's answer for MPS is the backend that convolution.cpp fills in
// for; a build with MPS names its own. The library is loaded first, so this
// definition is the one that is found; the wheel's own convolution, which could
// do nothing with the other answer, does not ask it.

#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>

#include <dlfcn.h>

namespace mps_simulator {
namespace {

using Select = decltype(at::native::select_conv_backend);

// The same symbol of the library behind this one.
template <typename Function>
Function* behind(Function* function) {
  Dl_info info{};
  const int found = dladdr(reinterpret_cast<void*>(function), &info);
  TORCH_INTERNAL_ASSERT(found != 0 && info.dli_sname != nullptr);
  void* next = dlsym(RTLD_NEXT, info.dli_sname);
  TORCH_INTERNAL_ASSERT(next != nullptr, info.dli_sname);
  return reinterpret_cast<Function*>(next);
}

} // namespace
} // namespace mps_simulator

namespace at::native {

ConvBackend select_conv_backend(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    SymIntArrayRef stride,
    SymIntArrayRef padding,
    SymIntArrayRef dilation,
    bool transposed,
    SymIntArrayRef output_padding,
    c10::SymInt groups,
    const OptionalSymIntArrayRef bias_sizes) {
  static mps_simulator::Select* const wheel_select = mps_simulator::behind<mps_simulator::Select>(&select_conv_backend);
  const ConvBackend choice = wheel_select(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, std::move(groups), bias_sizes);
  if (choice != ConvBackend::Overrideable || !input.is_mps()) {
    return choice;
  }
  return transposed ? ConvBackend::MpsTranspose : ConvBackend::Mps;
}

} // namespace at::native
