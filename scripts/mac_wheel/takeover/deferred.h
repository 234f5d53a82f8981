#pragma once

#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/DispatchKey.h>

#include <cstdint>
#include <memory>

namespace torch {
class Library;
}

// What the backend registers while a program starts, kept until takeOver() has
// decided to take the device. deferred_registrations.h makes the backend's
// sources register here.
namespace torch_mps_graph {

/// A block of TORCH_LIBRARY_IMPL.
struct DeferredLibrary {
  using Fill = void (*)(torch::Library&);

  DeferredLibrary(
      const char* name,
      c10::DispatchKey key,
      Fill fill,
      const char* file,
      uint32_t line) noexcept;

  const char* name;
  c10::DispatchKey key;
  Fill fill;
  const char* file;
  uint32_t line;
  const DeferredLibrary* next;

  /// "_" names all operators: such a block sets the fallback of its key.
  bool isFallback() const;
  /// The blocks of all sources, or null.
  static const DeferredLibrary* first() noexcept;
};

/// A registration that sets a pointer in libtorch_cpu or libc10, and so can't
/// fail: a dispatch stub's kernel, the device guard.
struct DeferredPointer {
  using Set = void (*)();

  explicit DeferredPointer(Set set) noexcept;

  Set set;
  const DeferredPointer* next;

  static const DeferredPointer* first() noexcept;
};

/// How the backend makes its hooks.
struct DeferredHooks {
  using Make = std::unique_ptr<at::MPSHooksInterface> (*)();

  explicit DeferredHooks(Make make) noexcept;

  /// Null if no source registered any.
  static Make make() noexcept;
};

} // namespace torch_mps_graph
