#pragma once

#include <string>

namespace mps_simulator {

// The exit status of a process that would have ended with 0 but had errors in
// its work for the device.
constexpr int kExitStatus = 70;

// Prints on standard error what no call has reported, and makes the process end
// with kExitStatus unless it fails anyway.
void report_at_exit(const std::string& message);

// Records misuse that is detected where nothing may be thrown, such as in a
// destructor. The next call that checks for it throws; what no call has fetched
// is reported when the process exits.
void defer_violation(const std::string& text);
bool has_deferred_violation();
// Throws the oldest one.
void report_deferred_violation();

// Runs as the last action of the simulator in a process.
void report_rest_at_exit();

inline void check_deferred_violations() {
  if (__builtin_expect(has_deferred_violation(), 0)) {
    report_deferred_violation();
  }
}

} // namespace mps_simulator
