#pragma once

#include <string>

namespace mps_simulator {

// Which functions of the backend's operations were entered since the last
// reset: their offsets in this library, as a JSON list. The build instruments
// those sources (cmake/Libraries.cmake); without that the list is empty.
std::string functions_run_json();
void forget_functions_run();

} // namespace mps_simulator
