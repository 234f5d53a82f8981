#include "support/counters.h"

#include "support/error.h"

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>

namespace mps_simulator {

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
  }
  return result + '"';
}

std::string json_object(const std::map<std::string, int64_t>& entries) {
  std::string text = "{";
  for (const auto& [key, value] : entries) {
    text += (text.size() > 1 ? ", " : "") + json_string(key) + ": " + std::to_string(value);
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

std::atomic<int> handler_wakes{0};
__thread bool in_background = false;

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

namespace {

struct ClassCount {
  std::atomic<const void*> object_class{nullptr};
  std::atomic<const char*> name{nullptr};
  std::atomic<int64_t> live{0};
};

// Open addressing without a lock, because every object passes here twice. The
// program has some 200 classes; in a full table the rest share the last slot.
constexpr size_t kSlots = 4096;
ClassCount table[kSlots];

ClassCount& slot_of(const void* object_class) {
  const auto address = reinterpret_cast<uintptr_t>(object_class);
  size_t index = (address >> 4) * 0x9E3779B97F4A7C15ull >> 52;
  for (size_t probe = 0; probe + 1 < kSlots; ++probe) {
    auto& slot = table[index];
    const void* found = slot.object_class.load(std::memory_order_acquire);
    if (found == object_class) {
      return slot;
    }
    if (!found && slot.object_class.compare_exchange_strong(found, object_class)) {
      return slot;
    }
    if (found == object_class) {
      return slot;
    }
    index = (index + 1) % kSlots;
  }
  return table[kSlots - 1];
}

} // namespace

void object_created(const void* object_class, const char* class_name) {
  auto& slot = slot_of(object_class);
  slot.name.store(class_name, std::memory_order_relaxed);
  slot.live.fetch_add(1, std::memory_order_relaxed);
}

void object_destroyed(const void* object_class) {
  slot_of(object_class).live.fetch_sub(1, std::memory_order_relaxed);
}

std::string live_objects_json() {
  std::map<std::string, int64_t> counts;
  for (const auto& slot : table) {
    const char* name = slot.name.load(std::memory_order_relaxed);
    const auto live = slot.live.load(std::memory_order_relaxed);
    if (name && live) {
      const std::string method = display_name(("[" + std::string(name)).c_str());
      counts[method.substr(1)] += live;
    }
  }
  return json_object(counts);
}

} // namespace mps_simulator
