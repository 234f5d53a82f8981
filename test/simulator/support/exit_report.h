#pragma once

#include <string>

namespace mps_simulator {

// The exit status of a process that would have ended with 0 but had errors in
// its work for the device.
constexpr int kExitStatus = 70;

// Prints on standard error what no call has reported, and makes the process end
// with kExitStatus unless it fails anyway.
void report_at_exit(const std::string& message);

} // namespace mps_simulator
