// What happens to a message that no method answers.
#pragma once

#include <Foundation/NSObject.h>

#include <cstdint>

namespace mps_simulator {

// The argument registers of a call in the System V ABI. The assembly in
// forwarding.mm knows the offsets.
struct CallFrame {
  uint64_t integers[6]; // rdi, rsi, rdx, rcx, r8, r9
  uint64_t vector_count; // al of a call with variable arguments
  alignas(16) uint64_t vectors[8][2]; // xmm0 … xmm7
};

} // namespace mps_simulator

// The forward handlers of the runtime: they look like the missing method.
extern "C" void mps_simulator_forward(void);
extern "C" void mps_simulator_forward_stret(void);
