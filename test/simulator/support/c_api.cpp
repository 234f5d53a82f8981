// What the Python package calls through ctypes. A returned string stays valid
// until the calling thread asks for the next one.

#include "foundation/signpost.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/functions_run.h"
#include "support/error.h"
#include "support/settings.h"

#include <string>

namespace mps_simulator {

// Of foundation/object_memory.h, which is not plain C++.
std::map<std::string, int64_t> autorelease_leaks();
void reset_autorelease_leaks();

} // namespace mps_simulator

namespace {

const char* keep(std::string text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) const char* mps_simulator_counters_json() {
  return keep(mps_simulator::counters_json());
}

__attribute__((visibility("default"))) void mps_simulator_reset_counters() {
  mps_simulator::reset_counters();
}

__attribute__((visibility("default"))) const char* mps_simulator_raised_errors_json() {
  return keep(mps_simulator::raised_errors_json());
}

__attribute__((visibility("default"))) void mps_simulator_forget_raised_errors() {
  mps_simulator::forget_raised_errors();
}

__attribute__((visibility("default"))) const char* mps_simulator_functions_run_json() {
  return keep(mps_simulator::functions_run_json());
}

__attribute__((visibility("default"))) void mps_simulator_forget_functions_run() {
  mps_simulator::forget_functions_run();
}

// For tests of what reads the list.
__attribute__((visibility("default"))) void mps_simulator_note_error(const char* kind, const char* message) {
  mps_simulator::note_error(kind, message);
}

__attribute__((visibility("default"))) const char* mps_simulator_signposts_json() {
  return keep(mps_simulator::signposts_json());
}

__attribute__((visibility("default"))) void mps_simulator_reset_signposts() {
  mps_simulator::reset_signposts();
}

__attribute__((visibility("default"))) void mps_simulator_set_null_mode(int enabled) {
  mps_simulator::settings().null_mode = enabled != 0;
}

__attribute__((visibility("default"))) int mps_simulator_handler_wakes() {
  return mps_simulator::handler_wakes;
}

__attribute__((visibility("default"))) int mps_simulator_null_mode() {
  return mps_simulator::settings().null_mode;
}

__attribute__((visibility("default"))) void mps_simulator_set_validation(int enabled) {
  mps_simulator::settings().validation = enabled != 0;
}

__attribute__((visibility("default"))) int mps_simulator_validation() {
  return mps_simulator::settings().validation;
}

__attribute__((visibility("default"))) void mps_simulator_set_delay_us(int microseconds, uint64_t seed) {
  auto& settings = mps_simulator::settings();
  settings.seed = seed;
  settings.delay_microseconds = microseconds > 0 ? microseconds : 0;
}

__attribute__((visibility("default"))) void mps_simulator_restart_thread_orders() {
  mps_simulator::restart_thread_orders();
}

__attribute__((visibility("default"))) void mps_simulator_set_copy_alignment(int bytes) {
  mps_simulator::settings().copy_alignment = bytes > 1 ? bytes : 1;
}

__attribute__((visibility("default"))) const char* mps_simulator_live_objects_json() {
  return keep(mps_simulator::live_objects_json());
}

__attribute__((visibility("default"))) const char* mps_simulator_autorelease_leaks_json() {
  return keep(mps_simulator::json_object(mps_simulator::autorelease_leaks()));
}

__attribute__((visibility("default"))) void mps_simulator_reset_autorelease_leaks() {
  mps_simulator::reset_autorelease_leaks();
}

__attribute__((visibility("default"))) const char* mps_simulator_macos_version() {
  const auto& settings = mps_simulator::settings();
  return keep(std::to_string(settings.macos_major) + "." + std::to_string(settings.macos_minor));
}

} // extern "C"
