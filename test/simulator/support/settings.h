#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace mps_simulator {

// Where the memory of buffers meets a page that faults.
enum class GuardSide { none, start, end };

// Read from the environment on first use; the atomic ones may change later.
struct Settings {
  Settings();

  std::atomic<bool> null_mode; // MPS_SIMULATOR_NULL_MODE, default 0
  std::atomic<bool> validation; // MPS_SIMULATOR_VALIDATION, default 1
  // Longest random pause of the GPU thread before a buffer and each of its
  // commands: MPS_SIMULATOR_DELAY_US, default 0
  std::atomic<unsigned> delay_microseconds;
  std::atomic<uint64_t> seed; // MPS_SIMULATOR_SEED, default 0
  // MPS_SIMULATOR_GUARD: end (the default), start or off
  std::atomic<GuardSide> guard_side;
  // For how long the GPU may be idle before a wait for it is reported as an
  // error: MPS_SIMULATOR_WAIT_LIMIT_MS, default 60 s
  std::atomic<unsigned> wait_limit_milliseconds;
  // Whether to report what the host does to memory that the GPU uses:
  // MPS_SIMULATOR_HAZARDS, default 1. Buffers made before are not watched.
  std::atomic<bool> hazards;
  // Whether to report commands that use the same memory without an order:
  // MPS_SIMULATOR_ORDER, default 1
  std::atomic<bool> order;
  // Whether several threads may encode one MPSGraphExecutable at once, which Apple does not say:
  // MPS_SIMULATOR_SHARED_EXECUTABLES, default 0
  std::atomic<bool> shared_executables;
  // Of the GPU, as in MTLGPUFamilyApple8: MPS_SIMULATOR_GPU_FAMILY, default 8
  std::atomic<unsigned> gpu_family;
  int macos_major; // MPS_SIMULATOR_MACOS, default 15.2
  int macos_minor;
  // MPS_SIMULATOR_SHADER_CACHE, default ~/.cache/mps_simulator/shaders
  std::string shader_cache_dir;
  std::string python; // MPS_SIMULATOR_PYTHON, default empty: as built
};

// Never destroyed: the GPU thread reads it while the process exits.
Settings* make_settings();

// In the header because most calls of the API begin by asking it.
inline Settings& settings() {
  static Settings* instance = make_settings();
  return *instance;
}

} // namespace mps_simulator
