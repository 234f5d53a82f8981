#import "metal/kernel_checks.h"

#include "metal/buffer.h"

#include <deque>
#include <map>
#include <mutex>

namespace mps_simulator {

namespace {

struct Range {
  uintptr_t first;
  uintptr_t end;
  // With guards and the rest of the pages.
  uintptr_t outer_first;
  uintptr_t outer_end;
  SimulatedBuffer* buffer;
};

struct Map {
  std::mutex mutex;
  std::map<uintptr_t, Range> ranges; // by their first address
  std::deque<std::pair<Range, MappedBuffer>> released; // the last ones
};

// Never destroyed: the GPU's thread asks it until the process ends.
Map& map() {
  static auto* instance = new Map;
  return *instance;
}

uintptr_t number(const char* address) {
  return reinterpret_cast<uintptr_t>(address);
}

MappedBuffer description(const Range& range) {
  const auto* buffer = range.buffer;
  MappedBuffer result;
  result.buffer = buffer;
  result.heap = buffer->_heap;
  result.memory = buffer->_memory;
  if (!result.memory) {
    result.memory.start = buffer->_pointer;
    result.memory.length = buffer->_length;
  }
  if (NSString* label = range.buffer.label) {
    result.label = label.UTF8String;
  }
  return result;
}

} // namespace

void map_buffer(SimulatedBuffer* buffer) {
  Range range{};
  range.first = number(buffer->_pointer);
  range.end = range.first + buffer->_length;
  range.outer_first = range.first;
  range.outer_end = range.end;
  if (const auto& memory = buffer->_memory) {
    range.outer_first = number(memory.pages) - kGuardLength;
    range.outer_end = number(memory.pages) + memory.pages_length + kGuardLength;
  }
  range.buffer = buffer;
  const std::lock_guard<std::mutex> lock(map().mutex);
  // Two buffers may share memory that neither owns: the younger one is named.
  map().ranges[range.first] = range;
}

void unmap_buffer(const SimulatedBuffer* buffer) {
  const std::lock_guard<std::mutex> lock(map().mutex);
  const auto found = map().ranges.find(number(buffer->_pointer));
  if (found != map().ranges.end() && found->second.buffer == buffer) {
    if (buffer->_memory) {
      auto& released = map().released;
      released.emplace_back(found->second, description(found->second));
      released.back().second.released = true;
      if (released.size() > kMostReleased) {
        released.pop_front();
      }
    }
    map().ranges.erase(found);
  }
}

bool find_buffer_at(const void* address, MappedBuffer& found) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(map().mutex);
  auto after = map().ranges.upper_bound(wanted);
  if (after == map().ranges.begin()) {
    return false;
  }
  const Range& range = std::prev(after)->second;
  if (wanted >= range.end) {
    return false;
  }
  found = description(range);
  return true;
}

bool find_buffer_near(const void* address, MappedBuffer& found) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(map().mutex);
  const auto after = map().ranges.upper_bound(wanted);
  const Range* nearest = nullptr;
  if (after != map().ranges.begin() && wanted < std::prev(after)->second.outer_end) {
    nearest = &std::prev(after)->second;
  } else if (after != map().ranges.end() && wanted >= after->second.outer_first) {
    nearest = &after->second;
  }
  if (nearest) {
    found = description(*nearest);
    return true;
  }
  for (auto gone = map().released.rbegin(); gone != map().released.rend(); ++gone) {
    if (wanted >= gone->first.outer_first && wanted < gone->first.outer_end) {
      found = gone->second;
      return true;
    }
  }
  return false;
}

} // namespace mps_simulator
