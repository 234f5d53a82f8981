#pragma once

#include "support/settings.h"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace mps_simulator {

// Misuse of an API that Apple's validation layer would report. A type of its
// own, so that a dispatch queue or the GPU thread can tell it from a failure.
class ValidationError : public c10::Error {
 public:
  using c10::Error::Error;
};

// Throws c10::NotImplementedError "MPS simulator: <formatted> is not simulated".
[[noreturn]] void unsupported(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Throws ValidationError "Metal validation (simulator): <formatted>". The text
// starts with the call: "-[Class selector]: what is wrong".
[[noreturn]] void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

// "-[SimulatedBuffer(Copying) contents]" reads "-[MTLBuffer contents]": the
// classes behind the Metal protocols are called Simulated…, a name that users
// of the simulator do not know.
std::string display_name(const char* function);

} // namespace mps_simulator

// For use inside a method or an API function: these name it.
#define UNSUPPORTED_CALL() ::mps_simulator::unsupported("%s", __func__)
#define VIOLATION(format, ...) ::mps_simulator::violation("%s: " format, __func__, ##__VA_ARGS__)
// True in the rare case only, and never evaluated with validation off.
#define VALIDATE(condition, format, ...)                                               \
  do {                                                                                 \
    if (__builtin_expect(::mps_simulator::settings().validation && !(condition), 0)) { \
      VIOLATION(format, ##__VA_ARGS__);                                                \
    }                                                                                  \
  } while (0)

// The errors that the simulator has raised, caught or not: a test that expects
// a failure swallows the exception, and must not take a missing implementation
// for the failure that it expects.

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

// A failure of the simulated GPU on its way to the caller that waits for the
// command buffer. Metal throws nothing there, so no code expects it: dispatch
// queues let it pass.
class ExecutionError : public c10::Error {
 public:
  using c10::Error::Error;
};

// Throws the failure as a type that dispatch queues let pass: misuse and what
// is not simulated keep theirs.
[[noreturn]] void rethrow_as_execution_error(const std::exception_ptr& failure);

// Whether the error being handled is the simulator's own and not the program's.
bool is_own_error(const std::exception& error);

} // namespace mps_simulator
