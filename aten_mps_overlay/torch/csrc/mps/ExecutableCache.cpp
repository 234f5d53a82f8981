#ifdef USE_MPS
#include <ATen/mps/MPSExecutableCacheStats.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

void initExecutableCacheBindings(py::module& module) {
  module.def("_mps_executable_cache", [] {
    return torch::jit::toPyObject(at::mps::describeExecutableCache());
  });
  module.def(
      "_mps_executable_cache_clear",
      torch::wrap_pybind_function_no_gil(&at::mps::clearExecutableCache));
  module.def(
      "_mps_set_executable_cache_limit",
      torch::wrap_pybind_function_no_gil(&at::mps::setExecutableCacheLimit));
  module.def(
      "_mps_set_executable_cache_enabled", &at::mps::setExecutableCacheEnabled);
  module.def(
      "_mps_is_executable_cache_enabled", &at::mps::isExecutableCacheEnabled);
}

} // namespace torch::mps
#endif // USE_MPS
