#pragma once

#include <string>

namespace torch_mps_graph {

/// Looks at each library of the process, and at each that is loaded later, for
/// calls of backend functions that do not reach the backend in charge: this
/// one, or the official one. Warns of each library that makes such calls.
void watchCallers(bool is_in_charge);

/// What is wrong with the work of the MPS device in this process, in a
/// sentence; empty if nothing is known to be.
std::string trouble();

} // namespace torch_mps_graph
