#ifdef USE_MPS
#include <ATen/mps/MPSExecutableCacheStats.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

static py::dict toDict(const at::mps::MPSExecutableCacheStats& stats) {
  py::dict result;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["evictions"] = stats.evictions;
  result["entries"] = stats.entries;
  return result;
}

static py::dict toDict(const at::mps::MPSExecutableCacheEntry& entry) {
  py::list inputs;
  for (const auto& input : entry.inputs) {
    py::object dtype = py::none();
    if (input.dtype != at::ScalarType::Undefined) {
      dtype = py::cast(input.dtype);
    }
    inputs.append(py::make_tuple(py::tuple(py::cast(input.shape)), dtype));
  }
  py::dict result;
  result["key"] = entry.key;
  result["inputs"] = inputs;
  result["hits"] = entry.hits;
  return result;
}

void initExecutableCacheBindings(py::module& module) {
  module.def("_mps_executable_cache_stats", []() {
    const auto stats = at::mps::executableCacheStats();
    auto result = toDict(stats);
    result["limit"] = stats.limit;
    return result;
  });
  module.def("_mps_executable_cache_stats_by_key", []() {
    py::dict result;
    for (const auto& [key, stats] : at::mps::executableCacheStatsByKey()) {
      result[py::str(key)] = toDict(stats);
    }
    return result;
  });
  module.def("_mps_executable_cache_entries", []() {
    py::list result;
    for (const auto& entry : at::mps::executableCacheEntries()) {
      result.append(toDict(entry));
    }
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
