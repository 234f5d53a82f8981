#include "shader/lanes.h"

#include "support/sanitizer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>

#if !defined(__x86_64__)
#error "the simulator's lanes are written for x86-64"
#endif

// Saves the callee-saved registers on the current stack, stores its pointer in
// *save and continues on `next`.
extern "C" void mps_simulator_switch_stack(void** save, void* next);
asm(R"(
.text
.hidden mps_simulator_switch_stack
.globl mps_simulator_switch_stack
.type mps_simulator_switch_stack, @function
mps_simulator_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mps_simulator_switch_stack, . - mps_simulator_switch_stack
)");

namespace mps_simulator::shader {
namespace {

namespace abi = mps_simulator_shader_abi;

constexpr size_t kPage = 4096;
constexpr size_t kStack = 256 * 1024;
constexpr size_t kStagger = 832;
constexpr unsigned kMaximumLanes = 1024;
constexpr unsigned kSavedRegisters = 6;

enum class State : uint8_t { ready, arrived, finished };

struct Lane {
  void* stack_pointer;
  State state;
  abi::Scope scope;
  const void* site;
  void* slot;
  abi::Operation operation;
};

// The stacks of all lanes, each above a page that must not be touched. Memory is
// only used as far as kernels use it.
class Stacks {
 public:
  Stacks() {
    memory_ = static_cast<char*>(
        mmap(nullptr, kMaximumLanes * (kPage + kStack), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory_ == MAP_FAILED) {
      throw std::runtime_error(std::string("MPS simulator: no memory for kernel stacks: ") + std::strerror(errno));
    }
  }
  char* top(unsigned lane) {
    // Opened as they are first used: most threadgroups are small.
    while (opened_ <= lane) {
      mprotect(memory_ + opened_ * (kPage + kStack) + kPage, kStack, PROT_READ | PROT_WRITE);
      ++opened_;
    }
    // Staggered, so that the stacks in use do not compete for the same cache sets.
    return memory_ + (lane + 1) * (kPage + kStack) - lane * kStagger % kPage;
  }
  sanitizer::Stack stack(unsigned lane) const {
    return {memory_ + lane * (kPage + kStack) + kPage, kStack};
  }
  // Removes the sanitizer's marks on the stacks of lanes that were left in the middle of calls.
  void forget_calls() {
    for (unsigned lane = 0; lane < opened_; ++lane) {
      sanitizer::allow_memory(stack(lane).bottom, kStack);
    }
  }
  bool is_guard(uintptr_t address) const {
    const auto start = reinterpret_cast<uintptr_t>(memory_);
    return address >= start && address < start + kMaximumLanes * (kPage + kStack) &&
        (address - start) % (kPage + kStack) < kPage;
  }

 private:
  char* memory_;
  unsigned opened_ = 0;
};

Stacks& stacks() {
  static Stacks instance;
  return instance;
}

// The threadgroup that runs. Plain data: a fault may jump out of it.
struct Group {
  const abi::Kernel* kernel;
  const abi::Dispatch* dispatch;
  const abi::Threadgroup* threadgroup;
  unsigned count;
  unsigned current;
  void* scheduler_stack;
  sanitizer::Stack scheduler;
  bool in_lane;
  Lane lanes[kMaximumLanes];
};
Group group;

MPS_SIMULATOR_CHANGES_STACK void enter(unsigned index) {
  void* kept = nullptr;
  group.current = index;
  group.in_lane = true;
  sanitizer::leave_for(&kept, stacks().stack(index));
  mps_simulator_switch_stack(&group.scheduler_stack, group.lanes[index].stack_pointer);
  sanitizer::arrive(kept);
  group.in_lane = false;
}

MPS_SIMULATOR_CHANGES_STACK void leave(Lane& lane) {
  void* kept = nullptr;
  sanitizer::leave_for(&kept, group.scheduler);
  mps_simulator_switch_stack(&lane.stack_pointer, group.scheduler_stack);
  sanitizer::arrive(kept, &group.scheduler);
}

MPS_SIMULATOR_CHANGES_STACK void arrive(abi::Scope scope, const void* site, void* slot, abi::Operation operation) {
  Lane& lane = group.lanes[group.current];
  lane.state = State::arrived;
  lane.scope = scope;
  lane.site = site;
  lane.slot = slot;
  lane.operation = operation;
  leave(lane);
}

unsigned lane_in_simdgroup() {
  return group.current % abi::kSimdWidth;
}

MPS_SIMULATOR_CHANGES_STACK void run_lane() {
  sanitizer::arrive(nullptr, &group.scheduler);
  const unsigned index = group.current;
  const abi::Extent size = group.threadgroup->size;
  group.kernel->run_lane(
      group.dispatch, group.threadgroup, index % size.x, index / size.x % size.y, index / size.x / size.y);
  Lane& lane = group.lanes[index];
  lane.state = State::finished;
  leave(lane);
  __builtin_trap(); // a finished lane is not resumed
}

void prepare(unsigned index) {
  Lane& lane = group.lanes[index];
  lane.state = State::ready;
  // As if run_lane had been called: a return address lies on the aligned stack.
  void** stack = reinterpret_cast<void**>(stacks().top(index));
  *--stack = nullptr;
  *--stack = reinterpret_cast<void*>(&run_lane);
  for (unsigned i = 0; i < kSavedRegisters; ++i) {
    *--stack = nullptr;
  }
  lane.stack_pointer = stack;
}

// Runs the lanes of one SIMD-group up to their next meeting place and holds one
// meeting. Whether anything happened.
bool step(unsigned first) {
  const unsigned end = std::min(first + abi::kSimdWidth, group.count);
  bool progress = false;
  for (unsigned i = first; i < end; ++i) {
    if (group.lanes[i].state == State::ready) {
      enter(i);
      progress = true;
    }
  }
  const Lane* earliest = nullptr;
  for (unsigned i = first; i < end; ++i) {
    const Lane& lane = group.lanes[i];
    if (lane.state == State::arrived && lane.scope == abi::Scope::simdgroup &&
        (!earliest || lane.site < earliest->site)) {
      earliest = &lane;
    }
  }
  if (!earliest) {
    return progress;
  }
  void* slots[abi::kSimdWidth] = {};
  const void* site = earliest->site;
  const abi::Operation operation = earliest->operation;
  for (unsigned i = first; i < end; ++i) {
    Lane& lane = group.lanes[i];
    if (lane.state == State::arrived && lane.scope == abi::Scope::simdgroup && lane.site == site &&
        lane.operation == operation) {
      slots[i - first] = lane.slot;
      lane.state = State::ready;
    }
  }
  operation(slots);
  return true;
}

} // namespace

const char* run_cooperative(
    const abi::Kernel& kernel,
    const abi::Dispatch& dispatch,
    const abi::Threadgroup& threadgroup) {
  group.kernel = &kernel;
  group.dispatch = &dispatch;
  group.threadgroup = &threadgroup;
  group.count = threadgroup.size.x * threadgroup.size.y * threadgroup.size.z;
  for (unsigned i = 0; i < group.count; ++i) {
    prepare(i);
  }
  const unsigned simdgroups = (group.count + abi::kSimdWidth - 1) / abi::kSimdWidth;
  const unsigned start = abi::start_of(dispatch.start.x, simdgroups);
  while (true) {
    bool progress = false;
    for (unsigned turn = 0; turn < simdgroups; ++turn) {
      progress = step(abi::turned(turn, start, simdgroups) * abi::kSimdWidth) || progress;
    }
    if (progress) {
      continue;
    }
    // No lane can go on: each one that is not finished waits at a threadgroup barrier.
    const void* site = nullptr;
    for (unsigned i = 0; i < group.count; ++i) {
      Lane& lane = group.lanes[i];
      if (lane.state == State::arrived) {
        if (site && site != lane.site) {
          stacks().forget_calls();
          return "its threads wait at different calls of threadgroup_barrier: all threads of a threadgroup must "
                 "reach the same one";
        }
        site = lane.site;
        lane.state = State::ready;
      }
    }
    if (!site) {
      return nullptr;
    }
  }
}

void abandon_lanes() {
  if (group.in_lane) {
    void* kept = nullptr;
    sanitizer::leave_for(&kept, group.scheduler);
    sanitizer::arrive(kept);
    group.in_lane = false;
  }
  stacks().forget_calls();
}

const abi::Runtime* lane_runtime() {
  static const abi::Runtime runtime{&arrive, &lane_in_simdgroup};
  return &runtime;
}

bool is_stack_guard(uintptr_t address) {
  return stacks().is_guard(address);
}

} // namespace mps_simulator::shader
