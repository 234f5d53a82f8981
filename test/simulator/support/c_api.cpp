// What the Python package calls through ctypes. A returned string stays valid
// until the calling thread asks for the next one.

#include "support/counters.h"
#include "support/live_objects.h"
#include "support/settings.h"

#include <string>

namespace {

const char* keep(std::string text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) const char*
mps_simulator_counters_json() {
  return keep(mps_simulator::counters_json());
}

__attribute__((visibility("default"))) void mps_simulator_reset_counters() {
  mps_simulator::reset_counters();
}

__attribute__((visibility("default"))) void mps_simulator_set_null_mode(
    int enabled) {
  mps_simulator::settings().null_mode = enabled != 0;
}

__attribute__((visibility("default"))) int mps_simulator_null_mode() {
  return mps_simulator::settings().null_mode;
}

__attribute__((visibility("default"))) void mps_simulator_set_validation(
    int enabled) {
  mps_simulator::settings().validation = enabled != 0;
}

__attribute__((visibility("default"))) int mps_simulator_validation() {
  return mps_simulator::settings().validation;
}

__attribute__((visibility("default"))) void mps_simulator_set_delay_us(
    int microseconds,
    uint64_t seed) {
  auto& settings = mps_simulator::settings();
  settings.seed = seed;
  settings.delay_microseconds = microseconds > 0 ? microseconds : 0;
}

__attribute__((visibility("default"))) void mps_simulator_set_copy_alignment(
    int bytes) {
  mps_simulator::settings().copy_alignment = bytes > 1 ? bytes : 1;
}

__attribute__((visibility("default"))) const char*
mps_simulator_live_objects_json() {
  return keep(mps_simulator::live_objects_json());
}

__attribute__((visibility("default"))) const char*
mps_simulator_macos_version() {
  const auto& settings = mps_simulator::settings();
  return keep(
      std::to_string(settings.macos_major) + "." +
      std::to_string(settings.macos_minor));
}

} // extern "C"
