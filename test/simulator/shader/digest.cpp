#include "shader/digest.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace mps_simulator::shader {
namespace {

// The constants are fractional bits of roots of the first primes; computing
// them is shorter than listing them and avoids typing errors.
struct Constants {
  std::array<uint32_t, 8> start;
  std::array<uint32_t, 64> round;

  Constants() {
    unsigned found = 0;
    for (unsigned candidate = 2; found < 64; ++candidate) {
      bool prime = true;
      for (unsigned divisor = 2; divisor * divisor <= candidate; ++divisor) {
        prime = prime && candidate % divisor != 0;
      }
      if (!prime) {
        continue;
      }
      const auto fraction = [](long double root) {
        return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
      };
      if (found < 8) {
        start[found] = fraction(std::sqrt(static_cast<long double>(candidate)));
      }
      round[found++] = fraction(std::cbrt(static_cast<long double>(candidate)));
    }
  }
};

uint32_t rotate(uint32_t value, unsigned by) {
  return value >> by | value << (32 - by);
}

} // namespace

std::string digest(const std::string& text) {
  static const Constants constants;
  std::string padded = text;
  padded += '\x80';
  padded.append((120 - padded.size() % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded += static_cast<char>(static_cast<uint64_t>(text.size()) * 8 >> shift);
  }
  auto state = constants.start;
  for (size_t block = 0; block < padded.size(); block += 64) {
    std::array<uint32_t, 64> words{};
    for (unsigned i = 0; i < 64; ++i) {
      if (i < 16) {
        for (unsigned byte = 0; byte < 4; ++byte) {
          words[i] = words[i] << 8 | static_cast<unsigned char>(padded[block + i * 4 + byte]);
        }
      } else {
        const uint32_t a = words[i - 15];
        const uint32_t b = words[i - 2];
        words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] +
            (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
      }
    }
    auto s = state;
    for (unsigned i = 0; i < 64; ++i) {
      const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      const uint32_t first = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice +
          constants.round[i] + words[i];
      const uint32_t second = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (unsigned i = 0; i < 8; ++i) {
      state[i] += s[i];
    }
  }
  std::string result;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      result += "0123456789abcdef"[word >> shift & 15];
    }
  }
  return result;
}

} // namespace mps_simulator::shader
