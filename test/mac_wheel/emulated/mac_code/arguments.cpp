// Calls with arguments and results of many kinds; built for the Mac and natively, where the compiler knows each side's rules.

#include <cstring>

#define SHARED extern "C" __attribute__((visibility("default")))

namespace {

struct Pair { long first, second; };
struct Triple { long first, second, third; };
struct Small { int first; char second; };
struct Floats { float first, second, third; };
struct Doubles { double first, second, third, fourth; };

char seen[1024];
unsigned long size = 0;

template <typename... Values>
void note(const Values&... values) {
  ((std::memcpy(seen + size, &values, sizeof(values)), size += sizeof(values)), ...);
}

void note(const Small& value) {
  note(value.first, value.second);
}

} // namespace

/// What the functions were given and have returned, one behind the other.
SHARED const char* mac_code_seen() {
  return seen;
}

SHARED unsigned long mac_code_seen_size() {
  return size;
}

/// Takes more than the registers hold: of Pair's second copy on, integers are on the stack; of Floats' second one on, the
/// floating-point numbers.
SHARED double mac_code_take(
    char a, Pair b, Triple c, short d, long e, Small f, Pair g, char h, short i, int j, Floats k, Doubles l, Floats m,
    double n, bool o, Triple p) {
  note(a, b, c, d, e), note(f), note(g, h, i, j, k, l, m, n, o, p);
  return n + 0.5;
}

SHARED void mac_code_give(decltype(mac_code_take) take) {
  note(take(
      -1, {2, 3}, {4, 5, 6}, -7, 1l << 40, {-8, 9}, {10, 11}, -12, 13, -14, {1.5f, 2.5f, 3.5f}, {4.5, 5.5, 6.5, 7.5},
      {8.5f, 9.5f, 10.5f}, 11.5, true, {15, 16, 17}));
}

#define RETURNS(name, type, ...)                      \
  SHARED type mac_code_return_##name(long) {          \
    return __VA_ARGS__;                               \
  }                                                   \
  SHARED void mac_code_want_##name(type (*give)(long)) { \
    note(give(1));                                    \
  }

RETURNS(pair, Pair, {1, 2})
RETURNS(triple, Triple, {3, 4, 5})
RETURNS(floats, Floats, {1.5f, 2.5f, 3.5f})
RETURNS(doubles, Doubles, {4.5, 5.5, 6.5, 7.5})
RETURNS(char, char, -6)
RETURNS(float, float, 8.5f)
