#import "metal/kernel_checks.h"

#include "metal/buffer.h"
#include "metal/gpu_order.h"
#include "metal/memory.h"
#include "metal/residency.h"
#include "shader/faults.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sys/mman.h>

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

namespace {

// Limit for one argument: of a longer table only the beginning is checked.
constexpr uint64_t kMostPointers = 64 * 1024;

// Only the GPU's thread runs kernels.
GuardedScratch& scratch_at(unsigned index) {
  static auto* scratches = new GuardedScratch[kBufferSlots];
  return scratches[index];
}

// The whole pages of a buffer, which nothing else lies on; false when it shares
// them.
bool own_pages(const MappedBuffer& buffer, char*& first, size_t& length) {
  if (buffer.is_guarded()) {
    first = buffer.memory.pages;
    length = buffer.memory.pages_length;
    return true;
  }
  first = buffer.memory.start;
  length = buffer.memory.length;
  return reinterpret_cast<uintptr_t>(first) % page_size() == 0 && length % page_size() == 0;
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

} // namespace

KernelChecks::KernelChecks(const KernelRun& run) : run_(run) {
  find_bound();
  close_unused();
}

KernelChecks::~KernelChecks() {
  open();
}

void KernelChecks::find_bound() {
  for (const auto& argument : run_.function->arguments()) {
    if (argument.threadgroup) {
      continue;
    }
    auto& slot = run_.buffers[argument.index];
    if (!slot.pointer) {
      continue;
    }
    Bound bound{&argument, (run_.bytes_mask >> argument.index & 1) != 0, {}};
    if (bound.bytes) {
      auto& scratch = scratch_at(argument.index);
      if (!scratch.usable() || slot.length > page_size()) {
        continue;
      }
      bound.buffer.memory = scratch.place(slot.pointer, slot.length);
      slot.pointer = bound.buffer.memory.start;
    } else if (!find_buffer_at(slot.pointer, bound.buffer)) {
      continue;
    }
    bound_.push_back(std::move(bound));
  }
}

void KernelChecks::close_unused() {
  for (const auto& bound : bound_) {
    const auto& argument = *bound.argument;
    if (argument.pointers.empty()) {
      continue;
    }
    const auto& slot = run_.buffers[argument.index];
    const auto* memory = static_cast<const char*>(slot.pointer);
    uint64_t left = kMostPointers;
    for (uint64_t at = 0; at + argument.minimum_length <= slot.length && left; at += argument.minimum_length) {
      for (const auto& pointer : argument.pointers) {
        const void* address = nullptr;
        std::memcpy(&address, memory + at + pointer.offset, sizeof(address));
        if (address && left) {
          consider(address, bound, pointer.writable);
          --left;
        }
      }
    }
  }
  if (closed_.empty()) {
    return;
  }
  // before they are, so that a thread of the host that meets one waits
  shader::pages_are_closed(true);
  for (const auto& closed : closed_) {
    char* first = nullptr;
    size_t length = 0;
    own_pages(closed.buffer, first, length);
    mprotect(first, length, closed.readable ? PROT_READ : PROT_NONE);
  }
}

void KernelChecks::consider(const void* address, const Bound& from, bool writable) {
  MappedBuffer target;
  if (!find_buffer_at(address, target)) {
    return;
  }
  const auto is_target = [&](const MappedBuffer& other) { return other.buffer == target.buffer; };
  bool readable = false;
  bool allowed = std::any_of(
      bound_.begin(), bound_.end(), [&](const Bound& bound) { return !bound.bytes && is_target(bound.buffer); });
  if (!allowed) {
    if (const auto* use = run_.residency.find(target.buffer, target.heap)) {
      readable = true;
      allowed = use->writes || !writable;
    }
  }
  if (allowed) {
    GpuOrder::instance().touches(
        {target.buffer, static_cast<const char*>(address), target.memory.start + target.memory.length, writable});
    if (writable && std::none_of(reached_.begin(), reached_.end(), is_target)) {
      reached_.push_back(std::move(target));
    }
    return;
  }
  char* first = nullptr;
  size_t length = 0;
  if (std::none_of(
          closed_.begin(), closed_.end(), [&](const ClosedBuffer& closed) { return is_target(closed.buffer); }) &&
      own_pages(target, first, length)) {
    closed_.push_back({std::move(target), from.argument->index, readable});
  }
}

void KernelChecks::open() {
  if (closed_.empty()) {
    return;
  }
  for (const auto& closed : closed_) {
    char* first = nullptr;
    size_t length = 0;
    own_pages(closed.buffer, first, length);
    mprotect(first, length, PROT_READ | PROT_WRITE);
  }
  shader::pages_are_closed(false);
  closed_.clear();
}

std::string KernelChecks::name_of(const MappedBuffer& buffer) const {
  std::string name = buffer.label.empty() ? "the buffer" : "the buffer " + quoted(buffer.label);
  for (const auto& bound : bound_) {
    if (!bound.bytes && bound.buffer.buffer == buffer.buffer) {
      return name + " at index " + std::to_string(bound.argument->index);
    }
  }
  return (buffer.label.empty() ? "a buffer" : name) + std::string(" that is not bound");
}

void KernelChecks::report_outside(const std::string& access,
                                  ptrdiff_t offset,
                                  size_t length,
                                  const std::string& name) const {
  violation("kernel '%s' %s %s %s: at offset %td, and its length is %zu",
            run_.function->name().c_str(),
            access.c_str(),
            offset < 0 ? "in front of" : "beyond the end of",
            name.c_str(),
            offset,
            length);
}

void KernelChecks::explain(const shader::KernelFault& fault) {
  const auto* address = reinterpret_cast<const char*>(fault.address);
  const std::string access = fault.write ? "wrote" : "read";
  const char* kernel = run_.function->name().c_str();
  const auto is_near = [&](const GuardedMemory& memory) {
    return memory.pages && address >= memory.pages - kGuardLength &&
        address < memory.pages + memory.pages_length + kGuardLength;
  };
  for (const auto& closed : closed_) {
    const auto& memory = closed.buffer.memory;
    if (address < memory.start || address >= memory.start + memory.length) {
      continue;
    }
    const auto target = closed.buffer;
    const auto from = closed.argument;
    const bool readable = closed.readable;
    open();
    violation(
        "kernel '%s' %s %s through a pointer in the data at index %u, but the "
        "encoder has declared it used %s",
        kernel,
        access.c_str(),
        name_of(target).c_str(),
        from,
        readable ? "without MTLResourceUsageWrite, which -useHeap: never gives"
                 : "neither by -useResource:usage: nor by -useHeap:");
  }
  for (const auto& bound : bound_) {
    if (bound.bytes && is_near(bound.buffer.memory)) {
      report_outside(access,
                     address - bound.buffer.memory.start,
                     bound.buffer.memory.length,
                     "the bytes at index " + std::to_string(bound.argument->index));
    }
  }
  MappedBuffer found;
  if (!find_buffer_near(address, found)) {
    return;
  }
  if (found.released) {
    violation("kernel '%s' %s %s, which has been released",
              kernel,
              access.c_str(),
              found.label.empty() ? "a buffer" : ("the buffer " + quoted(found.label)).c_str());
  }
  const auto offset = address - found.memory.start;
  if (offset < 0 || static_cast<size_t>(offset) >= found.memory.length) {
    report_outside(access, offset, found.memory.length, name_of(found));
  }
}

void KernelChecks::finish() {
  open();
  const auto check = [&](const MappedBuffer& buffer, const std::string& name) {
    if (const auto offset = buffer.memory.pages ? find_overwritten(buffer.memory) : 0) {
      report_outside("wrote", offset, buffer.memory.length, name);
    }
  };
  for (const auto& bound : bound_) {
    if (bound.argument->writable) {
      check(bound.buffer,
            bound.bytes ? "the bytes at index " + std::to_string(bound.argument->index) : name_of(bound.buffer));
    }
  }
  for (const auto& buffer : reached_) {
    check(buffer, name_of(buffer));
  }
}

} // namespace mps_simulator
