#include "foundation/forwarding.h"

#include "foundation/object_memory.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstddef>

#if !defined(__x86_64__)
#error "Forwarding is written for x86-64."
#endif

using mps_simulator::CallFrame;

static_assert(offsetof(CallFrame, vector_count) == 48, "assembly below");
static_assert(offsetof(CallFrame, vectors) == 64, "assembly below");
static_assert(sizeof(CallFrame) == 192, "assembly below");

// Called by the handlers. Returns the method to continue in, with the receiver in the frame replaced.
extern "C" __attribute__((used)) IMP mps_simulator_resolve(CallFrame* frame, bool struct_return) {
  using namespace mps_simulator;
  const int first = struct_return ? 1 : 0;
  id receiver = reinterpret_cast<id>(frame->integers[first]);
  const SEL selector = reinterpret_cast<SEL>(frame->integers[first + 1]);

  if (const Class destroyed = destroyed_object_class(receiver)) {
    violation("-[%s %s]: message sent to a deallocated object", class_getName(destroyed), sel_getName(selector));
  }
  if (!class_respondsToSelector(object_getClass(receiver), @selector(forwardingTargetForSelector:))) {
    // A block, or an object of another root class.
    unsupported("-[%s %s]", object_getClassName(receiver), sel_getName(selector));
  }
  id target = [receiver forwardingTargetForSelector:selector];
  if (target != nil && target != receiver) {
    frame->integers[first] = reinterpret_cast<uint64_t>(target);
    return struct_return ? objc_msg_lookup_stret(target, selector) : objc_msg_lookup(target, selector);
  }
  [receiver doesNotRecognizeSelector:selector];
  violation("-[%s doesNotRecognizeSelector:]: returned", object_getClassName(receiver));
}

// The unwinder passes these frames when a forwarded method throws.
__asm__(R"(
  .text
  .type mps_simulator_forward_common, @function
mps_simulator_forward_common:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movzbl %al, %eax
  movq %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movq %rsp, %rdi
  movl %r11d, %esi
  callq mps_simulator_resolve@PLT
  movq %rax, %r11
  movq 0(%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  jmpq *%r11
  .cfi_endproc
  .size mps_simulator_forward_common, .-mps_simulator_forward_common

  .globl mps_simulator_forward
  .hidden mps_simulator_forward
  .type mps_simulator_forward, @function
mps_simulator_forward:
  .cfi_startproc
  xorl %r11d, %r11d
  jmp mps_simulator_forward_common
  .cfi_endproc
  .size mps_simulator_forward, .-mps_simulator_forward

  .globl mps_simulator_forward_stret
  .hidden mps_simulator_forward_stret
  .type mps_simulator_forward_stret, @function
mps_simulator_forward_stret:
  .cfi_startproc
  movl $1, %r11d
  jmp mps_simulator_forward_common
  .cfi_endproc
  .size mps_simulator_forward_stret, .-mps_simulator_forward_stret
)");
