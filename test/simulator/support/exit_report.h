#pragma once

#include <string>

namespace mps_simulator {

// The status of a process that would have ended well if nothing had been wrong
// with its work for the device.
constexpr int kExitStatus = 70;

// Says on standard error what nobody was left to be told, and makes the process
// end with kExitStatus unless it fails anyway.
void report_at_exit(const std::string& message);

} // namespace mps_simulator
