#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch::mps {

/// Adds `_MPSGraph` and the functions behind torch/mps/graphs.py to torch._C.
void initGraphBindings(py::module& module);

} // namespace torch::mps
