#include "takeover.h"

#include "deferred.h"
#include "jit_generator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSDevice.h>
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

// Defined where the hooks are registered, by deferred_registrations.h.
extern "C" void torch_mps_graph_hooks_are_deferred();

namespace torch_mps_graph {
namespace {

// Two private members of the dispatcher, which has no other way to replace a
// fallback. An explicit instantiation may name what is private.
template <typename Tag, auto Member>
struct Revealed {
  friend constexpr auto revealed(Tag) {
    return Member;
  }
};

struct DeregisterFallback {
  friend constexpr auto revealed(DeregisterFallback);
};
template struct Revealed<DeregisterFallback, &c10::Dispatcher::deregisterFallback_>;

struct DispatcherGuard {
  friend constexpr auto revealed(DispatcherGuard);
};
template struct Revealed<DispatcherGuard, &c10::Dispatcher::guard_>;

void removeFallback(c10::DispatchKey key) {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (!dispatcher.hasBackendFallbackForDispatchKey(key)) {
    return;
  }
  std::lock_guard<std::mutex> lock((dispatcher.*revealed(DispatcherGuard{}))->mutex);
  (dispatcher.*revealed(DeregisterFallback{}))(key);
}

// The dispatcher warns, once in a process, that a kernel takes another one's
// place. Here this is what is meant to happen. Other warnings are passed on.
class WithoutOverrideWarning final : public c10::WarningHandler {
 public:
  WithoutOverrideWarning() : before_(c10::WarningUtils::get_warning_handler()), guard_(this) {}

  void process(const c10::Warning& warning) override {
    if (warning.msg().find("Overriding a previously registered kernel") == std::string::npos) {
      before_->process(warning);
    }
  }

 private:
  c10::WarningHandler* before_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

using Libraries = std::vector<std::unique_ptr<torch::Library>>;

void fill(Libraries& libraries, const DeferredLibrary& block) {
  libraries.push_back(std::make_unique<torch::Library>(
      torch::Library::IMPL, block.name, std::make_optional(block.key), block.file, block.line));
  block.fill(*libraries.back());
}

// What may fail comes first and is undone by its destructors; what can't, last.
void registerAll() {
  WithoutOverrideWarning silence;
  Libraries libraries;
  for (auto* block = DeferredLibrary::first(); block != nullptr; block = block->next) {
    if (!block->isFallback()) {
      fill(libraries, *block);
    }
  }
  JitGenerator jit_generator;
  for (auto* block = DeferredLibrary::first(); block != nullptr; block = block->next) {
    if (block->isFallback()) {
      removeFallback(block->key);
      fill(libraries, *block);
    }
  }
  for (auto* pointer = DeferredPointer::first(); pointer != nullptr; pointer = pointer->next) {
    pointer->set();
  }
  // Not every release of torch announces its MPS allocator to c10.
  if (c10::GetAllocator(c10::kMPS) != nullptr) {
    c10::SetAllocator(c10::kMPS, at::mps::GetMPSAllocator(), std::numeric_limits<uint8_t>::max());
  }
  jit_generator.keep();
  // Never destroyed: the kernels stay until the process ends.
  static Libraries* kept = nullptr;
  kept = new Libraries(std::move(libraries));
}

struct Decision {
  // torch asks the registry once in a process, and keeps the answer.
  bool asked = false;
  std::string failure;
  std::unique_ptr<at::MPSHooksInterface> official;
};

Decision& decision() {
  static auto* const only = new Decision;
  return *only;
}

// Called by at::detail::getMPSHooks(), which keeps what this returns. All is
// registered in here, so that the hooks are of the same backend as the rest.
std::unique_ptr<at::MPSHooksInterface> decide(at::MPSHooksArgs) {
  auto& decided = decision();
  decided.asked = true;
  try {
    registerAll();
    return DeferredHooks::make()();
  } catch (const std::exception& error) {
    decided.failure = std::string("its kernels could not be registered: ") + error.what();
    return std::move(decided.official);
  }
}

std::string takeOverOnce() {
  auto why = whyNotTheOfficialLibrary();
  if (!why.empty()) {
    return why;
  }
  torch_mps_graph_hooks_are_deferred();
  if (DeferredLibrary::first() == nullptr || DeferredPointer::first() == nullptr || DeferredHooks::make() == nullptr) {
    return "it was compiled without deferred_registrations.h, so its backend is not complete";
  }
  if (officialStreamExists()) {
    return "the official MPS backend has already been used in this process: import torch before what uses libtorch";
  }
  auto& decided = decision();
  auto* registry = at::MPSHooksRegistry();
  // Made now, since the next call forgets how. Its constructor does nothing.
  decided.official = registry->Create("MPSHooks", at::MPSHooksArgs{});
  if (decided.official == nullptr) {
    return "libtorch_cpu has no MPS backend";
  }
  registry->SetTerminate(false);
  try {
    registry->Register("MPSHooks", decide, c10::REGISTRY_PREFERRED);
  } catch (const std::exception&) {
    registry->SetTerminate(true);
    return "another library has already taken the MPS device over";
  }
  registry->SetTerminate(true);
  at::detail::getMPSHooks();
  if (!decided.asked) {
    return "the MPS device had been asked for before this library was loaded: import torch before what uses libtorch";
  }
  return decided.failure;
}

} // namespace

std::string takeOver() {
  static const std::string result = [] {
    auto why = takeOverOnce();
    watchCallers(/*is_in_charge=*/why.empty());
    return why;
  }();
  return result;
}

} // namespace torch_mps_graph
