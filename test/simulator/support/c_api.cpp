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

using namespace mps_simulator;

namespace {

const char* keep(std::string text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define EXPORT_TEXT(name, ...)                   \
  EXPORTED const char* mps_simulator_##name() {  \
    return keep(__VA_ARGS__);                    \
  }
#define EXPORT_CALL(name)              \
  EXPORTED void mps_simulator_##name() { \
    mps_simulator::name();             \
  }
#define EXPORT_SWITCH(name)                         \
  EXPORTED void mps_simulator_set_##name(int on) {  \
    settings().name = on != 0;                      \
  }                                                 \
  EXPORTED int mps_simulator_##name() {             \
    return settings().name;                         \
  }

EXPORT_TEXT(autorelease_leaks_json, json_object(autorelease_leaks()))
EXPORT_TEXT(counters_json, counters_json())
EXPORT_TEXT(functions_run_json, functions_run_json())
EXPORT_TEXT(live_objects_json, live_objects_json())
EXPORT_TEXT(macos_version, std::to_string(settings().macos_major) + "." + std::to_string(settings().macos_minor))
EXPORT_TEXT(raised_errors_json, raised_errors_json())
EXPORT_TEXT(signposts_json, signposts_json())
EXPORT_CALL(forget_functions_run)
EXPORT_CALL(forget_raised_errors)
EXPORT_CALL(reset_autorelease_leaks)
EXPORT_CALL(reset_counters)
EXPORT_CALL(reset_signposts)
EXPORT_CALL(restart_thread_orders)
EXPORT_SWITCH(null_mode)
EXPORT_SWITCH(validation)

// For tests of what reads the list.
EXPORTED void mps_simulator_note_error(const char* kind, const char* message) {
  note_error(kind, message);
}

EXPORTED int mps_simulator_handler_wakes() {
  return handler_wakes;
}

EXPORTED void mps_simulator_set_delay_us(int microseconds, uint64_t seed) {
  settings().seed = seed;
  settings().delay_microseconds = microseconds > 0 ? microseconds : 0;
}
