#include "cases.h"

#import <Foundation/Foundation.h>

#include <cstring>
#include <stdexcept>

namespace mps_simulator::cases {

namespace {

Case* first_case = nullptr;

std::string location(const char* file, int line) {
  return std::string(file) + ":" + std::to_string(line) + ": ";
}

} // namespace

Case::Case(const char* name, void (*run)()) : name(name), run(run), next(first_case) {
  first_case = this;
}

void fail(const char* file, int line, const std::string& message) {
  throw std::logic_error(location(file, line) + message);
}

void expect_violation(const char* file,
                      int line,
                      const std::string& start,
                      const std::string& text,
                      const std::function<void()>& body) {
  const std::string beginning = "Metal validation (simulator): " + start;
  try {
    body();
  } catch (const ValidationError& error) {
    const std::string message = error.what_without_backtrace();
    if (message.rfind(beginning, 0) != 0 || message.find(text, beginning.size()) == std::string::npos) {
      fail(file, line, "expected \"" + beginning + "\" and \"" + text + "\", got \"" + message + "\"");
    }
    return;
  }
  fail(file, line, "no violation by " + start + " (" + text + ")");
}

} // namespace mps_simulator::cases

using mps_simulator::cases::first_case;

extern "C" const char* simulator_case_names() {
  static std::string names;
  names.clear();
  for (auto* item = first_case; item; item = item->next) {
    names += names.empty() ? "" : "\n";
    names += item->name;
  }
  return names.c_str();
}

// An empty string when the case passed, otherwise what went wrong.
extern "C" const char* simulator_run_case(const char* name) {
  static thread_local std::string message;
  message.clear();
  for (auto* item = first_case; item; item = item->next) {
    if (std::strcmp(item->name, name) != 0) {
      continue;
    }
    @autoreleasepool {
      try {
        item->run();
      } catch (const c10::Error& error) {
        message = error.what_without_backtrace();
      } catch (const std::exception& error) {
        message = error.what();
      } catch (...) {
        message = "an Objective-C exception";
      }
    }
    return message.c_str();
  }
  message = "no such case";
  return message.c_str();
}
