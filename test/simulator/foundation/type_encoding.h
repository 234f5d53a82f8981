// Reads the compiler's encodings of types: their size, and how the System V ABI
// passes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mps_simulator {

enum class RegisterKind : uint8_t { Integer, Vector };

struct EncodedType {
  std::string text; // without qualifiers and frame offsets
  size_t size = 0;
  size_t alignment = 1;
  // One entry per eight bytes; empty when the value travels in memory.
  std::vector<RegisterKind> registers;

  bool in_memory() const {
    return size > 0 && registers.empty();
  }
};

// The return type and the types of all arguments, `self` and `_cmd` included.
std::vector<EncodedType> parse_method_types(const char* types);

EncodedType parse_type(const char* type);

} // namespace mps_simulator
