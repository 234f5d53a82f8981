#import "metal/residency.h"

#include "metal/access_log.h"
#include "metal/buffer.h"
#include "metal/command_list.h"

#include <cstdio>
#include <new>
#include <string>
#include <unordered_set>

namespace mps_simulator {

namespace {

bool is_buffer(id object) {
  static const Class buffer_class = [SimulatedBuffer class];
  return object_getClass(object) == buffer_class;
}

Residency::Use make_use(id resource, bool writes, const Residency::Use* before) {
  static const Class heap_class = [SimulatedHeap class];
  Residency::Use use{resource, nullptr, nullptr, writes, before};
  if (is_buffer(resource)) {
    auto* buffer = (SimulatedBuffer*)resource;
    use.heap = buffer->_heap;
    use.tracked = tracked_resource(buffer);
  } else if (object_getClass(resource) == heap_class) {
    auto* heap = (SimulatedHeap*)resource;
    use.heap = heap;
    use.tracked = [heap isUntracked] ? nullptr : heap;
  }
  return use;
}

} // namespace

void Residency::declare(id resource, bool writes, CommandList& list) {
  const Use use = make_use(resource, writes, youngest_);
  // Nearly every encoder declares some resource again and again.
  for (auto* known = youngest_; known; known = known->next) {
    if (known->resource == use.resource) {
      if (known->writes == use.writes) {
        return;
      }
      break;
    }
    if (use.heap && known->heap == use.heap && (known->resource == use.heap || use.resource == use.heap)) {
      break;
    }
  }
  youngest_ = new (list.allocate(sizeof(Use))) Use(use);
}

const Residency::Use* Residency::find(const void* buffer, const void* heap) const {
  const auto* use = youngest_;
  while (use && use->resource != buffer && (!heap || use->resource != heap)) {
    use = use->next;
  }
  return use;
}

void Residency::each(c10::function_ref<void(const Use&)> visit) const {
  std::unordered_set<const void*> known;
  for (const auto* declared = youngest_; declared; declared = declared->next) {
    // What is declared of a heap holds for the buffers declared before it.
    const bool replaced = declared->heap && known.count(declared->heap);
    if (known.insert(declared->resource).second) {
      Use use = *declared;
      use.writes = use.writes && !replaced;
      visit(use);
    }
  }
}

void Residency::log(AccessLog& log) const {
  each([&](const Use& use) {
    if (use.resource != use.heap && is_buffer((id)use.resource)) {
      auto* buffer = (SimulatedBuffer*)use.resource;
      log.add(buffer, 0, buffer->_length, use.writes);
    }
  });
}

const void* tracked_resource(const SimulatedBuffer* buffer) {
  if (buffer->_untracked) {
    return nullptr;
  }
  return buffer->_heap ? static_cast<const void*>(buffer->_heap) : buffer;
}

std::string describe_buffer(const SimulatedBuffer* buffer) {
  char place[64];
  std::snprintf(place, sizeof(place), " of %lu bytes at %p", buffer->_length, static_cast<void*>(buffer->_pointer));
  const std::string name = buffer->_label ? "'" + std::string(buffer->_label.UTF8String) + "'" : "without label";
  return name + place;
}

} // namespace mps_simulator
