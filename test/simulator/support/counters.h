#pragma once

#include "support/error.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace mps_simulator {

// In quotes. What controls a terminal becomes a blank.
std::string json_string(const std::string& text);
std::string json_object(const std::map<std::string, int64_t>& entries);

struct CallCounter {
  constexpr explicit CallCounter(const char* name) : name(name) {}

  const char* name;
  std::atomic<uint64_t> count{0};
  CallCounter* next = nullptr;
  bool registered = false;
};

void register_counter(CallCounter& counter);

// {"-[MTLBuffer contents]": 3, …}, without the calls never made since the reset.
std::string counters_json();
void reset_counters();

// How often a command buffer woke the thread of completion handlers.
extern std::atomic<int> handler_wakes;

} // namespace mps_simulator

namespace mps_simulator {

// True on threads that run completion handlers or asynchronous blocks: their calls cost the program no time, and are
// not counted.
extern __thread bool in_background __attribute__((tls_model("initial-exec")));

} // namespace mps_simulator

// First line of each API method. A counter is initialized at compile time and
// enters the list on its first call, so the usual cost is one atomic addition.
#define COUNT_CALL()                                                                            \
  do {                                                                                          \
    static ::mps_simulator::CallCounter call_counter{__func__};                                 \
    if (!::mps_simulator::in_background &&                                                      \
        __builtin_expect(call_counter.count.fetch_add(1, std::memory_order_relaxed) == 0, 0)) { \
      ::mps_simulator::register_counter(call_counter);                                          \
    }                                                                                           \
  } while (0)

// Methods that only give a value; calls of the first are counted.
#define COUNTED_GETTER(type, name, ...) \
  -(type)name {                         \
    COUNT_CALL();                       \
    return __VA_ARGS__;                 \
  }
#define GETTER(type, name, ...) \
  -(type)name {                 \
    return __VA_ARGS__;         \
  }

// A method that is there only to say that it is not simulated, from its signature.
#define NOT_SIMULATED(...) \
  __VA_ARGS__ {            \
    COUNT_CALL();          \
    UNSUPPORTED_CALL();    \
  }

namespace mps_simulator {

// Called by the root class with the object's class and the class's name (which
// lives as long as the class).
void object_created(const void* object_class, const char* class_name);
void object_destroyed(const void* object_class);

// {"MTLBuffer": 2, …}, without classes that have no live object.
std::string live_objects_json();

} // namespace mps_simulator
