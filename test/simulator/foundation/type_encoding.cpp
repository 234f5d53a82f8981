#include "foundation/type_encoding.h"

#include "support/error.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace mps_simulator {

namespace {

struct Leaf {
  size_t offset;
  bool is_vector;
};

struct Layout {
  size_t size = 0;
  size_t alignment = 1;
  std::vector<Leaf> leaves;

  void append(const Layout& member) {
    const size_t offset = (size + member.alignment - 1) / member.alignment * member.alignment;
    for (const auto& leaf : member.leaves) {
      leaves.push_back({offset + leaf.offset, leaf.is_vector});
    }
    size = offset + member.size;
    alignment = std::max(alignment, member.alignment);
  }

  void overlay(const Layout& member) {
    leaves.insert(leaves.end(), member.leaves.begin(), member.leaves.end());
    size = std::max(size, member.size);
    alignment = std::max(alignment, member.alignment);
  }

  void pad() {
    size = (size + alignment - 1) / alignment * alignment;
  }
};

Layout scalar(size_t size, bool is_vector = false) {
  return {size, size, {{0, is_vector}}};
}

class Parser {
 public:
  explicit Parser(const char* text) : start_(text), cursor_(text) {}

  bool done() const {
    return *cursor_ == '\0';
  }

  EncodedType next() {
    while (std::strchr("rnNoORV", *cursor_) != nullptr && *cursor_ != '\0') {
      ++cursor_;
    }
    const char* begin = cursor_;
    const Layout layout = parse();
    EncodedType type;
    type.text.assign(begin, cursor_);
    type.size = layout.size;
    type.alignment = layout.alignment;
    classify(layout, type);
    while (std::isdigit(static_cast<unsigned char>(*cursor_)) || *cursor_ == '-' || *cursor_ == '+') {
      ++cursor_;
    }
    return type;
  }

 private:
  [[noreturn]] void fail() const {
    unsupported("The type encoding '%s'", start_);
  }

  static void classify(const Layout& layout, EncodedType& type) {
    if (layout.size == 0 || layout.size > 16) {
      return;
    }
    type.registers.assign((layout.size + 7) / 8, RegisterKind::Vector);
    for (const auto& leaf : layout.leaves) {
      if (!leaf.is_vector) {
        type.registers[leaf.offset / 8] = RegisterKind::Integer;
      }
    }
  }

  void skip_quoted() {
    if (*cursor_ == '"') {
      for (++cursor_; *cursor_ != '"'; ++cursor_) {
        if (*cursor_ == '\0') {
          fail();
        }
      }
      ++cursor_;
    }
  }

  Layout parse() {
    const char kind = *cursor_;
    if (kind != '\0') {
      ++cursor_;
    }
    switch (kind) {
      case 'v':
        return {};
      case 'c':
      case 'C':
      case 'B':
        return scalar(1);
      case 's':
      case 'S':
        return scalar(2);
      case 'i':
      case 'I':
        return scalar(4);
      case 'l':
      case 'L':
      case 'q':
      case 'Q':
      case '*':
      case '#':
      case ':':
        return scalar(8);
      case 'f':
        return scalar(4, true);
      case 'd':
        return scalar(8, true);
      case '@':
        if (*cursor_ == '?') {
          ++cursor_;
          skip_angle_brackets();
        }
        skip_quoted();
        return scalar(8);
      case '^':
        if (*cursor_ == '?') {
          ++cursor_;
        } else {
          pointer_target();
        }
        return scalar(8);
      case '{':
        return aggregate('}', false);
      case '(':
        return aggregate(')', true);
      case '[':
        return array();
      default:
        fail();
    }
  }

  void skip_angle_brackets() {
    if (*cursor_ != '<') {
      return;
    }
    int depth = 0;
    do {
      depth += *cursor_ == '<' ? 1 : *cursor_ == '>' ? -1 : 0;
      ++cursor_;
    } while (depth > 0 && *cursor_ != '\0');
  }

  // The target may be a type that this parser does not understand (a C++
  // class).
  void pointer_target() {
    while (*cursor_ != '\0' && std::strchr("^rnNoORV", *cursor_) != nullptr) {
      ++cursor_;
    }
    if (*cursor_ == '@') {
      ++cursor_;
      if (*cursor_ == '?') {
        ++cursor_;
      }
      skip_quoted();
      return;
    }
    int depth = 0;
    do {
      if (std::strchr("{([", *cursor_) != nullptr) {
        ++depth;
      } else if (std::strchr("})]", *cursor_) != nullptr) {
        --depth;
      }
      ++cursor_;
    } while (depth > 0 && *cursor_ != '\0');
  }

  Layout aggregate(char end, bool is_union) {
    while (*cursor_ != '=' && *cursor_ != end) {
      if (*cursor_ == '\0') {
        fail();
      }
      ++cursor_;
    }
    if (*cursor_ == end) {
      fail(); // incomplete type
    }
    ++cursor_;
    Layout layout;
    while (*cursor_ != end) {
      skip_quoted();
      const Layout member = parse();
      if (is_union) {
        layout.overlay(member);
      } else {
        layout.append(member);
      }
    }
    ++cursor_;
    layout.pad();
    return layout;
  }

  Layout array() {
    size_t count = 0;
    while (std::isdigit(static_cast<unsigned char>(*cursor_))) {
      count = count * 10 + (*cursor_++ - '0');
    }
    const Layout element = parse();
    if (*cursor_ != ']') {
      fail();
    }
    ++cursor_;
    Layout layout;
    for (size_t i = 0; i < count; ++i) {
      layout.append(element);
    }
    return layout;
  }

  const char* start_;
  const char* cursor_;
};

} // namespace

std::vector<EncodedType> parse_method_types(const char* types) {
  Parser parser(types);
  std::vector<EncodedType> result;
  while (!parser.done()) {
    result.push_back(parser.next());
  }
  return result;
}

EncodedType parse_type(const char* type) {
  return Parser(type).next();
}

} // namespace mps_simulator
