#include "support/error.h"

#include "support/counters.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace mps_simulator {

namespace {

std::string format_arguments(const char* format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string text(length > 0 ? length : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

} // namespace

std::string display_name(const char* function) {
  std::string text = function;
  static constexpr char kPrefix[] = "[Simulated";
  const auto prefix = text.find(kPrefix);
  if (prefix != std::string::npos) {
    text.replace(prefix, sizeof(kPrefix) - 1, "[MTL");
  }
  const auto bracket = text.find('[');
  const auto space = text.find(' ', bracket == std::string::npos ? 0 : bracket);
  const auto open = text.find('(');
  if (bracket != std::string::npos && open != std::string::npos && open < space) {
    const auto close = text.find(')', open);
    if (close != std::string::npos) {
      text.erase(open, close - open + 1);
    }
  }
  return text;
}

void unsupported(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = format_arguments(format, arguments);
  va_end(arguments);
  const std::string message = "MPS simulator: " + display_name(what.c_str()) + " is not simulated";
  note_error("unsupported", message);
  throw c10::NotImplementedError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message);
}

void violation(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string what = format_arguments(format, arguments);
  va_end(arguments);
  const std::string message = "Metal validation (simulator): " + display_name(what.c_str());
  note_error("violation", message);
  throw ValidationError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message);
}

namespace {

constexpr size_t kMost = 1000; // different ones; a loop must not fill the memory

struct Raised {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};

// Never destroyed: the GPU thread may fail while the process exits.
Raised& raised() {
  static auto* instance = new Raised;
  return *instance;
}

thread_local int attempts = 0;

} // namespace

void note_error(const char* kind, const std::string& message) {
  if (attempts) {
    return;
  }
  std::string entry = std::string(kind) + ": " + message.substr(0, message.find('\n'));
  const std::lock_guard<std::mutex> lock(raised().mutex);
  auto& counts = raised().counts;
  const auto known = counts.find(entry);
  if (known != counts.end()) {
    known->second++;
  } else if (counts.size() < kMost) {
    counts.emplace(std::move(entry), 1);
  }
}

std::string raised_errors_json() {
  const std::lock_guard<std::mutex> lock(raised().mutex);
  return json_object(raised().counts);
}

void forget_raised_errors() {
  const std::lock_guard<std::mutex> lock(raised().mutex);
  raised().counts.clear();
}

AttemptGuard::AttemptGuard() {
  attempts++;
}

AttemptGuard::~AttemptGuard() {
  attempts--;
}

namespace {

constexpr char kPrefix[] = "MPS simulator: ";

bool says_not_simulated(const c10::NotImplementedError& error) {
  return std::strncmp(error.what_without_backtrace(), kPrefix, sizeof(kPrefix) - 1) == 0;
}

} // namespace

void rethrow_as_execution_error(const std::exception_ptr& failure) {
  const c10::SourceLocation location{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  try {
    std::rethrow_exception(failure);
  } catch (const ValidationError&) {
    throw;
  } catch (const ExecutionError&) {
    throw;
  } catch (const c10::NotImplementedError& error) {
    if (says_not_simulated(error)) {
      throw;
    }
    // A CPU kernel that lacks a data type.
    const std::string message = kPrefix + std::string(error.what_without_backtrace());
    note_error("unsupported", message);
    throw c10::NotImplementedError(location, message);
  } catch (const c10::Error& error) {
    note_error("execution", error.what_without_backtrace());
    throw ExecutionError(location, error.what_without_backtrace());
  } catch (const std::exception& error) {
    note_error("execution", error.what());
    throw ExecutionError(location, error.what());
  }
}

bool is_own_error(const std::exception& error) {
  if (const auto* unsupported = dynamic_cast<const c10::NotImplementedError*>(&error)) {
    return says_not_simulated(*unsupported);
  }
  return dynamic_cast<const ValidationError*>(&error) != nullptr ||
      dynamic_cast<const ExecutionError*>(&error) != nullptr;
}

} // namespace mps_simulator
