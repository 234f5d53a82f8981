// What the simulator has complained about, whoever caught it: a test that expects
// a failure swallows the exception, and a failure for want of an implementation
// is not the one that it expects.
#pragma once

#include <string>

namespace mps_simulator {

// `kind` says in a word what it was: unsupported, violation, execution.
void note_error(const char* kind, const std::string& message);

// {"violation: -[MTLBuffer …]: …": 2}, the first line of each message
std::string raised_errors_json();
void forget_raised_errors();

// While it lives, this thread's errors are only attempts: nothing is noted.
class AttemptGuard {
 public:
  AttemptGuard();
  ~AttemptGuard();
  AttemptGuard(const AttemptGuard&) = delete;
  AttemptGuard& operator=(const AttemptGuard&) = delete;
};

} // namespace mps_simulator
