// The text of strings for C++ code.
#pragma once

#include <Foundation/NSString.h>

#include <string>
#include <string_view>

namespace mps_simulator {

// Valid as long as the string lives and does not change. A nil string is empty.
std::string_view string_view_of(NSString* string);
std::string to_std_string(NSString* string);
NSString* to_ns_string(std::string_view text);

// Like vsprintf, with %@ for objects. The arguments are undefined afterwards.
std::string format_string(std::string_view format, va_list arguments);

} // namespace mps_simulator
