#include "support/error.h"
#include "support/raised_errors.h"

#include <cstdarg>
#include <cstdio>
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

} // namespace mps_simulator
