#include "deferred.h"

#include <cstring>

namespace torch_mps_graph {
namespace {

// Initialized before any constructor runs, whose order is not defined.
const DeferredLibrary* first_library = nullptr;
const DeferredPointer* first_pointer = nullptr;
DeferredHooks::Make make_hooks = nullptr;

} // namespace

DeferredLibrary::DeferredLibrary(
    const char* name,
    c10::DispatchKey key,
    Fill fill,
    const char* file,
    uint32_t line) noexcept
    : name(name), key(key), fill(fill), file(file), line(line), next(first_library) {
  first_library = this;
}

bool DeferredLibrary::isFallback() const {
  return std::strcmp(name, "_") == 0;
}

const DeferredLibrary* DeferredLibrary::first() noexcept {
  return first_library;
}

DeferredPointer::DeferredPointer(Set set) noexcept : set(set), next(first_pointer) {
  first_pointer = this;
}

const DeferredPointer* DeferredPointer::first() noexcept {
  return first_pointer;
}

DeferredHooks::DeferredHooks(Make make) noexcept {
  make_hooks = make;
}

DeferredHooks::Make DeferredHooks::make() noexcept {
  return make_hooks;
}

} // namespace torch_mps_graph
