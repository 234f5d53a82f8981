#pragma once

// The parts of the library besides the backend. Functions that return a string
// give a reason in a sentence, or "".

#include <string>

namespace torch_mps_graph {

/// Why the libtorch_cpu of this process is not the one that the library was
/// linked with, in a sentence; empty if it is.
std::string whyNotTheOfficialLibrary();

/// Says whether code has used the official backend's stream past the
/// dispatcher and the hooks: an extension that calls at::mps directly does.
bool officialStreamExists();

/// Puts this library's backend in charge of the MPS device, or changes nothing
/// and returns why. Must be called before `torch._C` is imported, from one
/// thread. A second call returns what the first did.
std::string takeOver();

/// Gives `torch._C` the patched backend's functions and classes in place of the
/// official ones, right after its import; call it with the GIL. Returns why it
/// could not, or "".
std::string replaceBindings();

/// Looks at each library of the process, and at each that is loaded later, for
/// calls of backend functions that do not reach the backend in charge: this
/// one, or the official one. Warns of each library that makes such calls.
void watchCallers(bool is_in_charge);

/// What is wrong with the work of the MPS device in this process, in a
/// sentence; empty if nothing is known to be.
std::string trouble();

} // namespace torch_mps_graph
