// What happens to a message that no method answers.
#pragma once

#include <Foundation/NSObject.h>

#include <cstdint>

namespace mps_simulator {

// The argument registers of a call in the System V ABI, and room for what it
// returns. The assembly in forwarding.mm knows the offsets.
struct CallFrame {
  uint64_t integers[6]; // rdi, rsi, rdx, rcx, r8, r9
  uint64_t vector_count; // al of a call with variable arguments
  uint64_t* stack; // arguments that did not fit
  alignas(16) uint64_t vectors[8][2]; // xmm0 … xmm7
  uint64_t returned_integers[2]; // rax, rdx
  uint64_t returned_vectors[2][2]; // xmm0, xmm1
};

struct OutgoingCall {
  CallFrame frame;
  void* function;
  uint64_t stack_words;
};

} // namespace mps_simulator

extern "C" {

// The forward handlers of the runtime: they look like the missing method.
void mps_simulator_forward(void);
void mps_simulator_forward_stret(void);

// Calls the function with the registers and stack words of the frame.
void mps_simulator_call(mps_simulator::OutgoingCall* call);
}

namespace mps_simulator {

// Hands the call in the frame to -forwardInvocation: and puts what that sets as
// the return value back into the frame.
void forward_invocation(id receiver, SEL selector, NSMethodSignature* signature, CallFrame& frame);

} // namespace mps_simulator
