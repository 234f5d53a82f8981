#pragma once

#include <string>

namespace mps_simulator {

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
