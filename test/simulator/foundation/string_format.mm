#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cctype>
#include <cstdarg>
#include <cstdio>

namespace mps_simulator {

namespace {

// va_list is an array type; in a struct it can be handed on by reference.
struct Arguments {
  va_list list;
};

class Formatter {
 public:
  Formatter(std::string_view format, Arguments& arguments) : format_(format), arguments_(arguments) {}

  std::string run() {
    while (position_ < format_.size()) {
      const char current = format_[position_++];
      if (current != '%') {
        result_ += current;
      } else {
        conversion();
      }
    }
    return std::move(result_);
  }

 private:
  char take() {
    if (position_ >= format_.size()) {
      violation("+[NSString stringWithFormat:]: the format ends inside a conversion");
    }
    return format_[position_++];
  }

  char peek() const {
    return position_ < format_.size() ? format_[position_] : '\0';
  }

  void number_or_star() {
    if (peek() == '*') {
      ++position_;
      specification_ += std::to_string(va_arg(arguments_.list, int));
    } else {
      while (std::isdigit(static_cast<unsigned char>(peek()))) {
        specification_ += take();
      }
    }
  }

  template <typename T>
  void print(T value) {
    const int length = std::snprintf(nullptr, 0, specification_.c_str(), value);
    std::string text(length > 0 ? length : 0, '\0');
    std::snprintf(text.data(), text.size() + 1, specification_.c_str(), value);
    result_ += text;
  }

  void conversion() {
    specification_ = "%";
    while (peek() != '\0' && std::string_view("-+ #0'").find(peek()) != std::string_view::npos) {
      specification_ += take();
    }
    number_or_star();
    if (peek() == '.') {
      specification_ += take();
      number_or_star();
    }
    unsigned longs = 0;
    unsigned shorts = 0;
    for (;; ++position_) {
      const char modifier = peek();
      if (modifier == 'l') {
        ++longs;
      } else if (modifier == 'h') {
        ++shorts;
      } else if (modifier == 'q' || modifier == 'j') {
        longs = 2;
      } else if (modifier == 'z' || modifier == 't') {
        longs = 1;
      } else {
        break;
      }
    }
    const char kind = take();
    switch (kind) {
      case '%':
        result_ += '%';
        return;
      case '@':
        specification_ += 's';
        print(describe(va_arg(arguments_.list, id)).c_str());
        return;
      case 'd':
      case 'i':
      case 'D':
        print_signed(longs, shorts);
        return;
      case 'u':
      case 'U':
      case 'x':
      case 'X':
      case 'o':
        print_unsigned(longs, shorts, kind == 'U' ? 'u' : kind);
        return;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        specification_ += kind;
        print(va_arg(arguments_.list, double));
        return;
      case 'c':
        specification_ += 'c';
        print(va_arg(arguments_.list, int));
        return;
      case 's': {
        specification_ += 's';
        const char* text = va_arg(arguments_.list, const char*);
        print(text == nullptr ? "(null)" : text);
        return;
      }
      case 'p':
        specification_ += 'p';
        print(va_arg(arguments_.list, void*));
        return;
      default:
        unsupported("The conversion '%%%c' of +[NSString stringWithFormat:]", kind);
    }
  }

  void print_signed(unsigned longs, unsigned shorts) {
    specification_ += "lld";
    if (longs > 0) {
      print(static_cast<long long>(va_arg(arguments_.list, long)));
      return;
    }
    const int value = va_arg(arguments_.list, int);
    print(static_cast<long long>(shorts == 0       ? value
                                     : shorts == 1 ? static_cast<short>(value)
                                                   : static_cast<signed char>(value)));
  }

  void print_unsigned(unsigned longs, unsigned shorts, char kind) {
    specification_ += "ll";
    specification_ += kind;
    if (longs > 0) {
      print(static_cast<unsigned long long>(va_arg(arguments_.list, unsigned long)));
      return;
    }
    const unsigned value = va_arg(arguments_.list, unsigned);
    print(static_cast<unsigned long long>(shorts == 0       ? value
                                              : shorts == 1 ? static_cast<unsigned short>(value)
                                                            : static_cast<unsigned char>(value)));
  }

  static std::string describe(id object) {
    return object == nil ? "(null)" : to_std_string([object description]);
  }

  std::string_view format_;
  Arguments& arguments_;
  size_t position_ = 0;
  std::string specification_;
  std::string result_;
};

} // namespace

std::string format_string(std::string_view format, va_list arguments) {
  Arguments copy;
  va_copy(copy.list, arguments);
  struct End {
    Arguments& arguments;
    ~End() {
      va_end(arguments.list);
    }
  } end{copy};
  return Formatter(format, copy).run();
}

std::string describe_member(id member, unsigned depth) {
  if ([member isKindOfClass:[NSString class]]) {
    const auto text = string_view_of(member);
    bool plain = !text.empty();
    for (const char c : text) {
      plain = plain &&
          (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/' || c == ':' || c == '.' || c == '$');
    }
    if (plain) {
      return std::string(text);
    }
    std::string quoted = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        quoted += '\\';
      }
      quoted += c;
    }
    return quoted + '"';
  }
  if ([member respondsToSelector:@selector(simulatorDescriptionAtDepth:)]) {
    return [member simulatorDescriptionAtDepth:depth];
  }
  return to_std_string([member description]);
}

} // namespace mps_simulator
