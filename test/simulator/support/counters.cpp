#include "support/counters.h"

#include "support/error.h"

#include <map>
#include <mutex>

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

namespace {

// Never destroyed: calls are still counted while the process exits.
std::mutex& list_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

CallCounter* first_counter = nullptr;

} // namespace

void register_counter(CallCounter& counter) {
  const std::lock_guard<std::mutex> lock(list_mutex());
  if (counter.registered) {
    return;
  }
  counter.registered = true;
  counter.next = first_counter;
  first_counter = &counter;
}

std::string counters_json() {
  std::map<std::string, int64_t> counts;
  {
    const std::lock_guard<std::mutex> lock(list_mutex());
    for (auto* counter = first_counter; counter; counter = counter->next) {
      const auto count = counter->count.load(std::memory_order_relaxed);
      if (count) {
        counts[display_name(counter->name)] += static_cast<int64_t>(count);
      }
    }
  }
  return json_object(counts);
}

void reset_counters() {
  const std::lock_guard<std::mutex> lock(list_mutex());
  for (auto* counter = first_counter; counter; counter = counter->next) {
    counter->count.store(0, std::memory_order_relaxed);
  }
}

} // namespace mps_simulator
