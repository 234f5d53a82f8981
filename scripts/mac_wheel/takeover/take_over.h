#pragma once

#include <string>

namespace torch_mps_graph {

/// Puts this library's backend in charge of the MPS device, or changes nothing
/// and returns why. Must be called before `torch._C` is imported, from one
/// thread. A second call returns what the first did.
std::string takeOver();

} // namespace torch_mps_graph
