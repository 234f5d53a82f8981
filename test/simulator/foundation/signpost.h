#pragma once

#include <string>

namespace mps_simulator {

// [{"subsystem": …, "category": …, "type": "event", "id": 1, "name": …,
// "message": …}, …], the oldest first.
std::string signposts_json();
void reset_signposts();

} // namespace mps_simulator
