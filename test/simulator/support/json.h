#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace mps_simulator {

std::string json_object(const std::map<std::string, int64_t>& entries);

} // namespace mps_simulator
