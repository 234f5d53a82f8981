#pragma once

#include <string>

namespace torch_mps_graph {

/// Why the libtorch_cpu of this process is not the one that the library was
/// linked with, in a sentence; empty if it is.
std::string whyNotTheOfficialLibrary();

/// Says whether code has used the official backend's stream past the
/// dispatcher and the hooks: an extension that calls at::mps directly does.
bool officialStreamExists();

} // namespace torch_mps_graph
