#pragma once

#include "shader/include/mps_simulator_shader_abi.h"

#include <cstdint>

namespace mps_simulator::shader {

// Runs the threads of a cooperative kernel as fibers on the calling thread, one
// threadgroup after the other. Lanes of a SIMD-group run until each has arrived
// at a SIMD-group function or barrier or has finished; then the function runs
// over all that came. SIMD-groups take turns after each such step. Where lanes
// have gone different ways, the call that lies first in the code goes first, so
// that the lanes in a branch catch up with those behind it.
//
// Returns null, or why the kernel could not go on. One kernel at a time: the
// caller holds cooperative_kernel_mutex().
const char* run_cooperative(
    const mps_simulator_shader_abi::Kernel& kernel,
    const mps_simulator_shader_abi::Dispatch& dispatch,
    const mps_simulator_shader_abi::Threadgroup& threadgroup);

// To be called after a jump out of run_cooperative().
void abandon_lanes();

// What compiled libraries call.
const mps_simulator_shader_abi::Runtime* lane_runtime();

// Whether an address lies in the guard page below a lane's stack.
bool is_stack_guard(uintptr_t address);

} // namespace mps_simulator::shader
