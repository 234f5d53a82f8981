// Checks for the Foundation cases, beyond those of cases.h.
#pragma once

#include "cases.h"

#include <Foundation/Foundation.h>

#include <string>
#include <vector>

// All classes of the process that inherit from NSObject.
const std::vector<Class>& all_classes();

namespace mps_simulator::cases {

inline void check_string(const char* file, int line, NSString* actual, const char* expected) {
  const std::string text = actual == nil ? "(nil)" : actual.UTF8String;
  if (text != expected) {
    fail(file, line, "the string is '" + text + "', not '" + expected + "'");
  }
}

} // namespace mps_simulator::cases

// The string, then its expected text; variadic, because the preprocessor splits
// message sends at their commas.
#define CHECK_STRING(...) ::mps_simulator::cases::check_string(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK_THROWS(Error, text, ...) \
  ::mps_simulator::cases::expect_thrown<Error>(__FILE__, __LINE__, text, [&] { __VA_ARGS__; })
#define CHECK_VIOLATION(text, ...) CHECK_THROWS(::mps_simulator::ValidationError, text, __VA_ARGS__)
#define CHECK_UNSUPPORTED(text, ...) CHECK_THROWS(c10::NotImplementedError, text, __VA_ARGS__)
