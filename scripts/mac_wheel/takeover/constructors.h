#pragma once

#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

namespace torch_mps_graph {

/// torch.Generator(device="mps") and torch.UntypedStorage(..., device="mps")
/// make objects of the official backend without asking the hooks
/// (torch/csrc/{Generator,Storage}.cpp). This puts constructors in front of
/// them that make this backend's.
void replaceConstructors(const pybind11::module_& torch_module);

} // namespace torch_mps_graph
