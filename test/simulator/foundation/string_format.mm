#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace mps_simulator {

namespace {

template <typename T>
void print(std::string& result, const std::string& specification, T value) {
  const int length = std::snprintf(nullptr, 0, specification.c_str(), value);
  std::string text(length > 0 ? length : 0, '\0');
  std::snprintf(text.data(), text.size() + 1, specification.c_str(), value);
  result += text;
}

} // namespace

std::string format_string(std::string_view format, va_list arguments) {
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      result += format[at];
      continue;
    }
    std::string specification = "%";
    bool is_long = false;
    for (;;) {
      if (++at >= format.size()) {
        violation("+[NSString stringWithFormat:]: the format ends inside a conversion");
      }
      if (format[at] == '*') {
        specification += std::to_string(va_arg(arguments, int));
      } else if (std::strchr("-+ #0'.123456789hlqjzt", format[at])) {
        specification += format[at];
        is_long = is_long || std::strchr("lqjzt", format[at]);
      } else {
        break;
      }
    }
    const char kind = format[at];
    specification += kind == '@' ? 's' : kind;
    if (kind == '%') {
      result += '%';
    } else if (kind == '@') {
      const id object = va_arg(arguments, id);
      print(result, specification, object == nil ? "(null)" : to_std_string([object description]).c_str());
    } else if (kind == 's') {
      const char* text = va_arg(arguments, const char*);
      print(result, specification, text == nullptr ? "(null)" : text);
    } else if (kind == 'p') {
      print(result, specification, va_arg(arguments, void*));
    } else if (std::strchr("diuxXoc", kind)) {
      if (is_long) {
        print(result, specification, va_arg(arguments, long));
      } else {
        print(result, specification, va_arg(arguments, int));
      }
    } else if (std::strchr("fFeEgGaA", kind)) {
      print(result, specification, va_arg(arguments, double));
    } else {
      unsupported("The conversion '%%%c' of +[NSString stringWithFormat:]", kind);
    }
  }
  return result;
}

} // namespace mps_simulator
