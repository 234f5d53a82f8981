#include "support/settings.h"

#include <cstdio>
#include <cstdlib>

namespace mps_simulator {

namespace {

std::string environment(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value && *value ? value : fallback;
}

uint64_t environment_number(const char* name, uint64_t fallback) {
  const char* value = std::getenv(name);
  if (!value || !*value) {
    return fallback;
  }
  char* end = nullptr;
  const auto number = std::strtoull(value, &end, 0);
  if (*end) {
    // Thrown exceptions cannot be reported from a library constructor.
    std::fprintf(stderr, "MPS simulator: %s=%s is not a number, ignored\n", name, value);
    return fallback;
  }
  return number;
}

GuardSide guard_side_from_environment() {
  const std::string side = environment("MPS_SIMULATOR_GUARD", "end");
  if (side == "off") {
    return GuardSide::none;
  }
  if (side == "start") {
    return GuardSide::start;
  }
  if (side != "end") {
    std::fprintf(
        stderr,
        "MPS simulator: MPS_SIMULATOR_GUARD=%s is none of end, start and off, "
        "ignored\n",
        side.c_str());
  }
  return GuardSide::end;
}

unsigned gpu_family_from_environment() {
  const auto family = environment_number("MPS_SIMULATOR_GPU_FAMILY", 8);
  if (family >= 7 && family <= 9) {
    return static_cast<unsigned>(family);
  }
  std::fprintf(
      stderr,
      "MPS simulator: MPS_SIMULATOR_GPU_FAMILY=%llu is none of 7, 8 and 9, "
      "ignored\n",
      static_cast<unsigned long long>(family));
  return 8;
}

std::string default_cache_directory() {
  const std::string cache = environment("XDG_CACHE_HOME", environment("HOME", "/tmp") + "/.cache");
  return cache + "/mps_simulator/shaders";
}

} // namespace

Settings::Settings()
    : null_mode(environment_number("MPS_SIMULATOR_NULL_MODE", 0) != 0),
      validation(environment_number("MPS_SIMULATOR_VALIDATION", 1) != 0),
      delay_microseconds(environment_number("MPS_SIMULATOR_DELAY_US", 0)),
      seed(environment_number("MPS_SIMULATOR_SEED", 0)),
      guard_side(guard_side_from_environment()),
      wait_limit_milliseconds(environment_number("MPS_SIMULATOR_WAIT_LIMIT_MS", 60000)),
      hazards(environment_number("MPS_SIMULATOR_HAZARDS", 1) != 0),
      order(environment_number("MPS_SIMULATOR_ORDER", 1) != 0),
      shared_executables(environment_number("MPS_SIMULATOR_SHARED_EXECUTABLES", 0) != 0),
      gpu_family(gpu_family_from_environment()),
      macos_major(15),
      macos_minor(2),
      shader_cache_dir(environment("MPS_SIMULATOR_SHADER_CACHE", default_cache_directory())),
      python(environment("MPS_SIMULATOR_PYTHON", "")) {
  const std::string version = environment("MPS_SIMULATOR_MACOS", "15.2");
  int major = 0;
  int minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) >= 1 && major > 0) {
    macos_major = major;
    macos_minor = minor;
  } else {
    std::fprintf(stderr, "MPS simulator: MPS_SIMULATOR_MACOS=%s is not a version, ignored\n", version.c_str());
  }
}

Settings* make_settings() {
  static auto* instance = new Settings;
  return instance;
}

} // namespace mps_simulator
