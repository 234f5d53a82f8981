#import "metal/residency.h"

#include "metal/access_log.h"
#include "metal/buffer.h"
#include "metal/heap.h"

#include <cstdio>
#include <string>
#include <unordered_set>

namespace mps_simulator {

namespace {

bool is_buffer(id object) {
  static const Class buffer_class = [SimulatedBuffer class];
  return object_getClass(object) == buffer_class;
}

} // namespace

ResourceUse make_use(id resource, bool writes, const ResourceUse* before) {
  static const Class heap_class = [SimulatedHeap class];
  ResourceUse use{resource, nullptr, nullptr, writes, before};
  if (is_buffer(resource)) {
    auto* buffer = (SimulatedBuffer*)resource;
    use.heap = buffer->_heap;
    use.tracked = buffer->_untracked ? nullptr : use.heap ? use.heap : resource;
  } else if (object_getClass(resource) == heap_class) {
    auto* heap = (SimulatedHeap*)resource;
    use.heap = heap;
    use.tracked = [heap isUntracked] ? nullptr : heap;
  }
  return use;
}

const ResourceUse* declared_use(
    const ResourceUse* uses,
    const void* buffer,
    const void* heap) {
  while (uses && uses->resource != buffer && (!heap || uses->resource != heap)) {
    uses = uses->next;
  }
  return uses;
}

void each_declared_use(
    const ResourceUse* uses,
    c10::function_ref<void(const ResourceUse&)> visit) {
  std::unordered_set<const void*> known;
  for (; uses; uses = uses->next) {
    // What is declared of a heap holds for the buffers declared before it.
    const bool replaced = uses->heap && known.count(uses->heap);
    if (known.insert(uses->resource).second) {
      ResourceUse use = *uses;
      use.writes = use.writes && !replaced;
      visit(use);
    }
  }
}

void log_declared_uses(const ResourceUse* uses, AccessLog& log) {
  each_declared_use(uses, [&](const ResourceUse& use) {
    if (use.resource != use.heap && is_buffer((id)use.resource)) {
      auto* buffer = (SimulatedBuffer*)use.resource;
      log.add(buffer, 0, buffer->_length, use.writes);
    }
  });
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
