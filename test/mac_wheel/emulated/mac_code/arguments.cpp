// Calls with arguments and results of many kinds; built for the Mac and natively, where the compiler knows each side's rules.

#include <cstring>

#define SHARED extern "C" __attribute__((visibility("default")))

namespace {

struct Pair { long first, second; };
struct Triple { long first, second, third; };
struct Small { int first; char second; };
struct Floats { float first, second, third; };
struct Doubles { double first, second, third, fourth; };
using Block = long (^)(Triple, float);

// What the functions were given and have returned, one behind the other.
char seen[1024];
unsigned long size = 0;

template <typename... Values>
void note(const Values&... values) {
  ((std::memcpy(seen + size, &values, sizeof(values)), size += sizeof(values)), ...);
}

void note(const Small& value) { note(value.first, value.second); }

// How many objects a block has captured.
int live = 0;
Block kept = nullptr;

struct Counted {
  Counted() { live++; }
  Counted(const Counted&) { live++; }
  ~Counted() { live--; }
};

} // namespace

SHARED const char* mac_code_seen() { return seen; }
SHARED unsigned long mac_code_seen_size() { return size; }
SHARED int mac_code_live() { return live; }

/// Takes more than the registers hold: from the second Pair and the second Floats on, numbers are on the stack.
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

#define RETURNS(name, type, ...)                                      \
  SHARED type mac_code_return_##name(long) { return __VA_ARGS__; }    \
  SHARED void mac_code_want_##name(type (*give)(long)) { note(give(1)); }
RETURNS(pair, Pair, {1, 2})
RETURNS(triple, Triple, {3, 4, 5})
RETURNS(floats, Floats, {1.5f, 2.5f, 3.5f})
RETURNS(doubles, Doubles, {4.5, 5.5, 6.5, 7.5})
RETURNS(char, char, -6)
RETURNS(float, float, 8.5f)

/// Sends a message with two structs, as every compiler for arm64 passes them: by their addresses.
SHARED void mac_code_send_sizes(void* receiver, void* selector, void (*send)(void*, void*, Triple, Triple)) {
  send(receiver, selector, {3, 1, 1}, {1, 1, 1});
}

/// Sends it with their fields in the registers.
SHARED void mac_code_send_fields(
    void* receiver, void* selector, void (*send)(void*, void*, long, long, long, long, long, long)) {
  send(receiver, selector, 3, 1, 1, 1, 1, 1);
}

extern "C" void* _Block_copy(const void* block);
extern "C" void _Block_release(const void* block);

SHARED void mac_code_call_block(Block block) { note(block({1, 2, 3}, 4.5f)); }

/// Gives a block to a function of the other side, which may keep it.
SHARED void mac_code_give_block(void (*take)(Block)) {
  __block long calls = 0;
  const Counted counted;
  take(^(Triple sizes, float number) {
    (void)counted;
    return ++calls * 1000 + sizes.first + sizes.third + static_cast<long>(number);
  });
  note(calls);
}

/// Keeps a block and calls it twice.
SHARED void mac_code_keep_block(Block block) {
  kept = reinterpret_cast<Block>(_Block_copy(reinterpret_cast<const void*>(block)));
  mac_code_call_block(kept), mac_code_call_block(kept);
}

/// Calls the block that was kept, and drops it.
SHARED void mac_code_drop_block() {
  mac_code_call_block(kept);
  _Block_release(reinterpret_cast<const void*>(kept));
}
