#pragma once

#include <string>

namespace mps_simulator {

// Notes misuse that shows where nothing may be thrown, such as in a destructor.
// The next call that checks for it throws; what nobody fetched is reported when
// the process exits.
void defer_violation(const std::string& text);
bool has_deferred_violation();
// Throws the oldest one.
void report_deferred_violation();

// The last thing that the simulator does in a process.
void report_rest_at_exit();

inline void check_deferred_violations() {
  if (__builtin_expect(has_deferred_violation(), 0)) {
    report_deferred_violation();
  }
}

} // namespace mps_simulator
