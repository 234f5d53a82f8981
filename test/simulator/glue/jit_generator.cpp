// `torch.Generator(device=…)` in TorchScript. The wheel's function knows the
// CPU alone; the library is loaded first, so this definition is the one that
// the interpreter's operator finds.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <c10/core/Device.h>

namespace torch::jit {

// Its header, register_ops_utils.h, is not included: it brings in the whole
// interpreter, which takes longer to read than any other file of this directory.
at::Generator make_generator_for_device(c10::Device device, std::optional<int64_t> seed) {
  if (device.is_cpu()) {
    return seed ? at::detail::createCPUGenerator(*seed) : at::detail::createCPUGenerator();
  }
  TORCH_CHECK(device.is_mps(), "Unsupported device for at::make_generator_for_device found: ", device.str());
  return seed ? at::mps::detail::createMPSGenerator(*seed) : at::mps::detail::createMPSGenerator();
}

} // namespace torch::jit
