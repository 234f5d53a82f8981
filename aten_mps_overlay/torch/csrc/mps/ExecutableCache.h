#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

/// Adds the functions behind torch/mps/executable_cache.py to torch._C.
void initExecutableCacheBindings(py::module& module);

} // namespace torch::mps
