#include "support/json.h"

namespace mps_simulator {

std::string json_object(const std::map<std::string, int64_t>& entries) {
  std::string text = "{";
  for (const auto& [key, value] : entries) {
    if (text.size() > 1) {
      text += ", ";
    }
    text += '"';
    for (const char character : key) {
      if (character == '"' || character == '\\') {
        text += '\\';
      }
      text += character;
    }
    text += "\": " + std::to_string(value);
  }
  return text + "}";
}

} // namespace mps_simulator
