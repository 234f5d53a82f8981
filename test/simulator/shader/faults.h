#pragma once

#include <csetjmp>
#include <cstdint>

namespace mps_simulator::shader {

// Turns a crash of a kernel into something that can be reported. While a guard
// exists, SIGSEGV, SIGBUS and SIGILL on its thread jump to `frame()`, with
// `signal` and `address` set. Integer divisions that the processor refuses
// (by zero, or overflowing) are given a result instead: quotient 0 and remainder
// the dividend, or the wrapped quotient and remainder 0.
//
//   FaultGuard guard;
//   if (sigsetjmp(guard.frame(), 0) == 0) { call the kernel } else { report }
class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  sigjmp_buf& frame() {
    return frame_;
  }
  static constexpr uintptr_t kUnknownAddress = ~uintptr_t{0};
  volatile int signal = 0;
  volatile uintptr_t address = 0;
  volatile bool write = false;

 private:
  sigjmp_buf frame_;
  FaultGuard* outer_;
};

// Called after the protection of pages has been changed, so that a kernel's access
// to them faults, or changed back. Any other thread that touches them meanwhile
// tries again until they are accessible.
void pages_are_closed(bool closed);

// Asked first about each access that faulted outside of a guard or inside of one;
// true when the instruction may be tried again. Installs the signal handlers.
using AccessHandler = bool (*)(void* address, bool is_write, void* instruction);
void set_access_handler(AccessHandler handler);

} // namespace mps_simulator::shader
