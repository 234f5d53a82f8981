#pragma once

#include <string>

namespace torch_mps_graph {

/// Gives `torch._C` the patched backend's functions and classes in place of the
/// official ones, right after its import; call it with the GIL. Returns why it
/// could not, or "".
std::string replaceBindings();

} // namespace torch_mps_graph
