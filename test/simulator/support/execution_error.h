#pragma once

#include <c10/util/Exception.h>

#include <exception>

namespace mps_simulator {

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
