#pragma once

#include <string>

namespace mps_simulator::shader {

// SHA-256 in hexadecimal.
std::string digest(const std::string& text);

} // namespace mps_simulator::shader
