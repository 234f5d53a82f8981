#pragma once

#include "support/settings.h"

#include <c10/util/Exception.h>

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
