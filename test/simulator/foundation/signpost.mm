// Logs and signposts. A log reports itself as disabled, as on a Mac where no
// program streams it; signposts are kept and can be read from Python.
#include "foundation/signpost.h"

#include <Foundation/Foundation.h>
#include <os/signpost.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <deque>
#include <mutex>

// Apple's buffer drops the oldest ones, too.
static constexpr size_t kKeptSignposts = 4096;

@interface SimulatorLog : NSObject {
 @public
  std::string _subsystem;
  std::string _category;
}
@end

@implementation SimulatorLog
@end

namespace {

struct Signpost {
  std::string subsystem;
  std::string category;
  os_signpost_type_t type;
  os_signpost_id_t id;
  std::string name;
  std::string message;
};

std::mutex mutex;
std::deque<Signpost>& signposts() {
  // Never destroyed: the backend may emit while the process exits.
  static auto* kept = new std::deque<Signpost>();
  return *kept;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      result += '\\';
      result += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", character);
      result += escaped;
    } else {
      result += character;
    }
  }
  return result + '"';
}

const char* type_name(os_signpost_type_t type) {
  switch (type) {
    case OS_SIGNPOST_INTERVAL_BEGIN:
      return "begin";
    case OS_SIGNPOST_INTERVAL_END:
      return "end";
    default:
      return "event";
  }
}

} // namespace

namespace mps_simulator {

std::string signposts_json() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::string result = "[";
  for (const auto& signpost : signposts()) {
    result += result.size() > 1 ? ", " : "";
    result += "{\"subsystem\": " + quoted(signpost.subsystem) + ", \"category\": " + quoted(signpost.category) +
        ", \"type\": " + quoted(type_name(signpost.type)) + ", \"id\": " + std::to_string(signpost.id) +
        ", \"name\": " + quoted(signpost.name) + ", \"message\": " + quoted(signpost.message) + "}";
  }
  return result + "]";
}

void reset_signposts() {
  const std::lock_guard<std::mutex> lock(mutex);
  signposts().clear();
}

} // namespace mps_simulator

os_log_t os_log_create(const char* subsystem, const char* category) {
  SimulatorLog* log = [[SimulatorLog alloc] init];
  log->_subsystem = subsystem;
  log->_category = category;
  return (os_log_t)log;
}

bool os_signpost_enabled(os_log_t log) {
  return log != nullptr;
}

os_signpost_id_t os_signpost_id_generate(os_log_t log) {
  static std::atomic<os_signpost_id_t> last{0};
  return ++last;
}

os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t log, const void* pointer) {
  return reinterpret_cast<os_signpost_id_t>(pointer);
}

void _os_signpost_record(os_log_t log, os_signpost_type_t type, os_signpost_id_t id, const char* name, ...) {
  // The two IDs that Apple reserves for none emit nothing.
  if (log == nullptr || id == OS_SIGNPOST_ID_NULL || id == OS_SIGNPOST_ID_INVALID) {
    return;
  }
  va_list arguments;
  va_start(arguments, name);
  // The macros end the arguments with a null, in place of a missing format.
  const char* format = va_arg(arguments, const char*);
  char message[1024] = "";
  if (format != nullptr) {
    vsnprintf(message, sizeof(message), format, arguments);
  }
  va_end(arguments);
  SimulatorLog* simulated = (SimulatorLog*)log;
  const std::lock_guard<std::mutex> lock(mutex);
  signposts().push_back({simulated->_subsystem, simulated->_category, type, id, name, message});
  if (signposts().size() > kKeptSignposts) {
    signposts().pop_front();
  }
}
