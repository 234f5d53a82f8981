#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

/// Adds the functions behind torch/mps/_static_memory.py to torch._C.
void initStaticMemoryBindings(py::module& module);

} // namespace torch::mps
