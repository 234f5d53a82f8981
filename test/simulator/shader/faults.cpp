#include "shader/faults.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <initializer_list>

#include <sys/mman.h>
#include <ucontext.h>

namespace mps_simulator::shader {
namespace {

thread_local FaultGuard* current_guard = nullptr;
std::atomic<AccessHandler> access_handler{nullptr};

// Counts the changes of protection: odd while pages are closed.
std::atomic<unsigned> protection_changes{0};
thread_local uintptr_t waiting_address = 0;
thread_local unsigned waiting_change = 0;

// Whether an access of a thread that runs no kernel is worth another attempt: it
// met closed pages, or pages that have been opened since it faulted.
bool may_try_again(uintptr_t address) {
  const unsigned change = protection_changes.load();
  if (change == 0) {
    return false;
  }
  if (change % 2 == 1) {
    const timespec pause{0, 50 * 1000};
    nanosleep(&pause, nullptr);
    return true;
  }
  if (waiting_address == address && waiting_change == change) {
    return false;
  }
  waiting_address = address;
  waiting_change = change;
  return true;
}

// Handlers that were there before, by signal.
struct sigaction previous_actions[64];

// Handlers need a stack of their own: the kernel's may be what overflowed.
struct SignalStack {
  static constexpr size_t size = 64 * 1024;
  void* memory = nullptr;

  SignalStack() {
    stack_t existing{};
    sigaltstack(nullptr, &existing);
    if (!(existing.ss_flags & SS_DISABLE)) {
      return;
    }
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      memory = nullptr;
      return;
    }
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = size;
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (memory) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
      munmap(memory, size);
    }
  }
};

// Length of the DIV or IDIV at `code` and its operand's width in bytes; 0 when
// the instruction is another one.
unsigned division_length(const unsigned char* code, unsigned& width, bool& is_signed) {
  const unsigned char* at = code;
  bool half_width = false;
  bool wide = false;
  while (*at == 0x66 || *at == 0xf2 || *at == 0xf3 || *at == 0x2e || *at == 0x3e || *at == 0x64 || *at == 0x65) {
    half_width = half_width || *at == 0x66;
    ++at;
  }
  if ((*at & 0xf0) == 0x40) {
    wide = *at & 8;
    ++at;
  }
  const unsigned char opcode = *at++;
  const unsigned char mode = *at++;
  const unsigned extension = mode >> 3 & 7;
  if ((opcode != 0xf6 && opcode != 0xf7) || (extension != 6 && extension != 7)) {
    return 0;
  }
  is_signed = extension == 7;
  width = opcode == 0xf6 ? 1 : wide ? 8 : half_width ? 2 : 4;
  const unsigned addressing = mode >> 6;
  const unsigned base = mode & 7;
  if (addressing != 3) {
    unsigned displacement = addressing == 1 ? 1 : addressing == 2 ? 4 : 0;
    if (base == 4) {
      const unsigned char scale = *at++;
      if (addressing == 0 && (scale & 7) == 5) {
        displacement = 4;
      }
    } else if (addressing == 0 && base == 5) {
      displacement = 4;
    }
    at += displacement;
  }
  return static_cast<unsigned>(at - code);
}

bool finish_division(ucontext_t* context) {
  greg_t* registers = context->uc_mcontext.gregs;
  unsigned width = 0;
  bool is_signed = false;
  const unsigned length = division_length(reinterpret_cast<const unsigned char*>(registers[REG_RIP]), width, is_signed);
  if (length == 0) {
    return false;
  }
  const auto low = static_cast<uint64_t>(registers[REG_RAX]);
  const auto high = static_cast<uint64_t>(registers[REG_RDX]);
  const uint64_t mask = width == 8 ? ~0ull : (1ull << (width * 8)) - 1;
  // One byte: the dividend is AX. Otherwise it is spread over two registers.
  const uint64_t dividend = (width == 1 ? low & 0xff : low) & mask;
  const uint64_t smallest = 1ull << (width * 8 - 1);
  const bool overflow = is_signed && dividend == smallest && (width == 1 || (high & mask) == mask);
  const uint64_t quotient = overflow ? smallest : 0;
  const uint64_t remainder = overflow ? 0 : dividend;
  if (width == 1) {
    registers[REG_RAX] = static_cast<greg_t>((low & ~0xffffull) | remainder << 8 | quotient);
  } else {
    // 32-bit results clear the upper half of their register.
    const uint64_t kept = width == 2 ? ~mask : 0;
    registers[REG_RAX] = static_cast<greg_t>((low & kept) | quotient);
    registers[REG_RDX] = static_cast<greg_t>((high & kept) | remainder);
  }
  registers[REG_RIP] += length;
  return true;
}

void handle(int signal, siginfo_t* information, void* context) {
  const AccessHandler access = access_handler.load(std::memory_order_acquire);
  if (signal == SIGSEGV && access && information->si_code == SEGV_ACCERR) {
    const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    constexpr greg_t kWrite = 2;
    if (access(information->si_addr, registers[REG_ERR] & kWrite, reinterpret_cast<void*>(registers[REG_RIP]))) {
      return;
    }
  }
  FaultGuard* guard = current_guard;
  if (guard) {
    if (signal == SIGFPE && finish_division(static_cast<ucontext_t*>(context))) {
      return;
    }
    guard->signal = signal;
    // The processor does not say which address was no address at all.
    guard->address = information->si_code == SI_KERNEL ? FaultGuard::kUnknownAddress
                                                       : reinterpret_cast<uintptr_t>(information->si_addr);
    // Bit 1 of the processor's error code is set for a write.
    guard->write = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
    siglongjmp(guard->frame(), 1);
  }
  if (signal == SIGSEGV && information->si_code == SEGV_ACCERR &&
      may_try_again(reinterpret_cast<uintptr_t>(information->si_addr))) {
    return;
  }
  // No kernel is running on this thread: pass the signal on as if this handler did not exist.
  const struct sigaction& previous = previous_actions[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, information, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);
  }
}

void install_handlers() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction current{};
    sigaction(signal, nullptr, &current);
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle) {
      continue;
    }
    // Another handler (Python's faulthandler, for example) was installed since.
    previous_actions[signal] = current;
    struct sigaction own{};
    own.sa_sigaction = handle;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &own, nullptr);
  }
}

} // namespace

void pages_are_closed(bool closed) {
  if (closed) {
    install_handlers();
  }
  protection_changes.fetch_add(1);
}

FaultGuard::FaultGuard() : outer_(current_guard) {
  static thread_local SignalStack stack;
  install_handlers();
  current_guard = this;
}

void set_access_handler(AccessHandler handler) {
  access_handler.store(handler, std::memory_order_release);
  install_handlers();
}

FaultGuard::~FaultGuard() {
  current_guard = outer_;
}

} // namespace mps_simulator::shader
