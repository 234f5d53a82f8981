#import "metal/residency.h"

#include "metal/access_log.h"
#include "metal/buffer.h"
#include "metal/heap.h"

#include <cstdio>
#include <string>

namespace mps_simulator {

MTLResourceUsage Residency::usage_of(const SimulatedBuffer* buffer) const {
  NSUInteger usage = 0;
  const auto own = usages_.find(buffer);
  if (own != usages_.end()) {
    usage |= own->second;
  }
  if (buffer->_heap) {
    const auto heap = usages_.find(buffer->_heap);
    if (heap != usages_.end()) {
      usage |= heap->second;
    }
  }
  return static_cast<MTLResourceUsage>(usage);
}

void Residency::log_accesses(AccessLog& log) const {
  static const Class buffer_class = [SimulatedBuffer class];
  for (const auto& [resource, usage] : usages_) {
    id object = (id)resource;
    if (object_getClass(object) == buffer_class) {
      auto* buffer = (SimulatedBuffer*)object;
      log.add(buffer, 0, buffer->_length, usage & MTLResourceUsageWrite);
    }
  }
}

std::string describe_buffer(const SimulatedBuffer* buffer) {
  char place[64];
  std::snprintf(
      place,
      sizeof(place),
      " of %lu bytes at %p",
      buffer->_length,
      static_cast<void*>(buffer->_pointer));
  const std::string name = buffer->_label
      ? "'" + std::string(buffer->_label.UTF8String) + "'"
      : "without label";
  return name + place;
}

} // namespace mps_simulator
