// Reads the tables of torch from inside the process, and plants faults in what the library is about to register. It is
// compiled with the wheel's headers, as an extension is.

#include "deferred.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>

#include <cstring>
#include <stdexcept>
#include <string>

#define SHARED extern "C" __attribute__((visibility("default")))

using torch_mps_graph::DeferredLibrary;

namespace {

// The private members to look at. An explicit instantiation may name what is private.
template <typename Tag, auto Member>
struct Opened { friend constexpr auto opened(Tag) { return Member; } };
#define OPEN(name, member)                                \
  struct name { friend constexpr auto opened(name); };    \
  template struct Opened<name, &c10::member>
OPEN(Operators, Dispatcher::operators_);
OPEN(Fallbacks, Dispatcher::backendFallbackKernels_);
OPEN(Table, impl::OperatorEntry::dispatchTable_);
OPEN(Kernels, impl::OperatorEntry::kernels_);

static_assert(sizeof(c10::KernelFunction) == 32, "tables.py reads it as four pointers");
constexpr const char* kGenerator = "aten::Generator";

// What Python reads: lines of words.
struct Lines {
  std::string text;

  void word(const char* value) { (text += value) += ' '; }
  void word(const std::string& value) { word(value.c_str()); }
  void word(uintptr_t value) { word(std::to_string(value)); }
  void word(const void* value) { word(reinterpret_cast<uintptr_t>(value)); }
  template <typename... Words>
  void line(const Words&... words) { (word(words), ...), text.back() = '\n'; }
};

} // namespace

/// All tables; asks for nothing that torch decides at the first question.
SHARED const char* mac_code_tables() {
  auto& out = *new Lines;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& each : dispatcher.*opened(Fallbacks{})) {
    out.line("fallback", &each.kernel);
  }
  for (int number = 0; number <= static_cast<int>(c10::DispatchKey::EndOfRuntimeBackendKeys); number++) {
    const auto key = static_cast<c10::DispatchKey>(number);
    out.line("key", c10::toString(key), c10::getDispatchTableIndexForDispatchKey(key));
  }
  for (const auto& each : dispatcher.*opened(Operators{})) {
    const auto& [base, overload] = each.op.operator_name();
    const auto name = overload.empty() ? base : base + "." + overload;
    out.line("operator", name, (each.op.*opened(Table{})).data());
    for (const auto& [key, kernels] : each.op.*opened(Kernels{})) {
      for (const auto& kernel : kernels) {
        out.line("kernel", name, c10::toString(key), &kernel.kernel);
      }
    }
  }
  for (int type = 0; type < c10::COMPILE_TIME_MAX_DEVICE_TYPES; type++) {
    out.line("guard", c10::impl::device_guard_impl_registry[type].load());
    out.line("allocator", c10::GetAllocator(static_cast<c10::DeviceType>(type)));
  }
  for (const auto& each : torch::jit::getAllOperators()) {
    out.line("interpreted", each.get());
  }
  return out.text.c_str();
}

/// The hooks. torch asks for them here if nothing has before, and keeps the answer.
SHARED const void* mac_code_hooks() {
  return &at::detail::getMPSHooks();
}

/// The default generator of the device, by the hooks.
SHARED const void* mac_code_generator() {
  return at::globalContext().defaultGenerator(at::kMPS).unsafeGetGeneratorImpl();
}

/// The virtual functions of TorchScript's own operators that make generators.
SHARED const char* mac_code_generator_operators() {
  auto& out = *new Lines;
  for (const auto& each : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(kGenerator))) {
    if (!each->isC10Op()) {
      // libc++'s std::function ends with a pointer to its content.
      const auto operation = each->getOperation();
      static_assert(sizeof(operation) == 4 * sizeof(void*));
      const void* words[4];
      std::memcpy(words, &operation, sizeof(words));
      out.line(*static_cast<const void* const*>(words[3]));
    }
  }
  return out.text.c_str();
}

namespace {

at::Tensor wrong(const at::Tensor& self, int64_t) { return self; }
void fillWrong(torch::Library& library) { library.impl("sub.Tensor", TORCH_FN(wrong)); }
void fillNothing(torch::Library&) { throw std::runtime_error("planted"); }

} // namespace

/// Plants something among what the library is about to register:
///   0: last, a kernel with a signature that is not its operator's
///   1: first, a fallback of another device, which fails when all kernels and TorchScript's operator are registered
///   2: last, a fallback of MPS, which fails when the official one is gone; the library relies on that not to happen
SHARED void mac_code_plant(const DeferredLibrary** place, int what) {
  while (what != 1 && *place != nullptr) {
    place = const_cast<const DeferredLibrary**>(&(*place)->next);
  }
  auto* block = static_cast<DeferredLibrary*>(std::calloc(1, sizeof(DeferredLibrary)));
  block->name = what == 0 ? "aten" : "_";
  block->key = what == 1 ? c10::DispatchKey::FPGA : c10::DispatchKey::MPS;
  block->fill = what == 0 ? fillWrong : fillNothing;
  block->file = "probe.cpp";
  block->next = *place;
  *place = block;
}

/// Plants another operator in the place of the one that makes generators.
SHARED void mac_code_plant_generator_operator() {
  torch::jit::deregisterOperator(torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(kGenerator)).at(0)->schema());
  torch::jit::registerOperator(torch::jit::Operator(
      "aten::Generator(*, Device? device=None, int? seed=None) -> Generator",
      [](torch::jit::Stack&) {},
      c10::AliasAnalysisKind::FROM_SCHEMA));
}
