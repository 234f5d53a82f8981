#ifdef USE_MPS
#include <torch/csrc/mps/ExecutableCache.h>

#include <ATen/mps/MPSExecutableCache.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

void initExecutableCacheBindings(py::module& module) {
  module.def("_mps_executable_cache_stats", []() {
    const auto stats = at::mps::executableCacheStats();
    py::dict result;
    result["hits"] = stats.hits;
    result["misses"] = stats.misses;
    result["evictions"] = stats.evictions;
    result["entries"] = stats.entries;
    result["limit"] = stats.limit;
    return result;
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
