// The errors that the simulator has raised, caught or not: a test that expects
// a failure swallows the exception, and must not take a missing implementation
// for the failure that it expects.
#pragma once

#include <string>

namespace mps_simulator {

// `kind` says in a word what it was: unsupported, violation, execution.
void note_error(const char* kind, const std::string& message);

// {"violation: -[MTLBuffer …]: …": 2}, the first line of each message
std::string raised_errors_json();
void forget_raised_errors();

// While it exists, this thread's errors are only attempts and are not recorded.
class AttemptGuard {
 public:
  AttemptGuard();
  ~AttemptGuard();
  AttemptGuard(const AttemptGuard&) = delete;
  AttemptGuard& operator=(const AttemptGuard&) = delete;
};

} // namespace mps_simulator
