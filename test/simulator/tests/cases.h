#pragma once

// Self-tests that need Objective-C. test_metal.py runs each as a test of its own.

#include "support/error.h"

#include <functional>
#include <string>

namespace mps_simulator::cases {

struct Case {
  Case(const char* name, void (*run)());
  const char* name;
  void (*run)();
  Case* next;
};

[[noreturn]] void fail(const char* file, int line, const std::string& message);

// `body` must raise a violation that starts with `start` and contains `text`.
void expect_violation(
    const char* file,
    int line,
    const std::string& start,
    const std::string& text,
    const std::function<void()>& body);

// `body` must throw an Error whose message contains `text`.
template <typename Error, typename Body>
void expect_thrown(const char* file, int line, const std::string& text, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (std::string(error.what()).find(text) == std::string::npos) {
      fail(file, line, "expected \"" + text + "\" in \"" + error.what() + "\"");
    }
    return;
  }
  fail(file, line, "nothing thrown, expected \"" + text + "\"");
}

} // namespace mps_simulator::cases

#define CASE(name)                                                           \
  static void case_##name();                                                 \
  static ::mps_simulator::cases::Case registered_##name(#name, case_##name); \
  static void case_##name()

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      ::mps_simulator::cases::fail(__FILE__, __LINE__, "not true: " #condition); \
    }                                                                            \
  } while (0)

#define CHECK_EQUAL(left, right)                                                                                   \
  do {                                                                                                             \
    const auto left_value = (left);                                                                                \
    const auto right_value = (right);                                                                              \
    if (!(left_value == static_cast<decltype(left_value)>(right_value))) {                                         \
      ::mps_simulator::cases::fail(                                                                                \
          __FILE__, __LINE__, #left " is " + std::to_string(left_value) + ", not " + std::to_string(right_value)); \
    }                                                                                                              \
  } while (0)

#define EXPECT_VIOLATION(call, text, ...) EXPECT_NAMED(std::string(call) + ": ", text, __VA_ARGS__)
// Of a message that does not begin with a call.
#define EXPECT_NAMED(start, text, ...) \
  ::mps_simulator::cases::expect_violation(__FILE__, __LINE__, start, text, [&]() __VA_ARGS__)
#define EXPECT_ERROR(text, ...) \
  ::mps_simulator::cases::expect_thrown<std::exception>(__FILE__, __LINE__, text, [&]() __VA_ARGS__)
