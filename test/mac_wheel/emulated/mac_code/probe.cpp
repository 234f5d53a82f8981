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
constexpr auto kDeviceTypes = static_cast<int>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);
constexpr const char* kGenerator = "aten::Generator";

// What Python reads: numbers of 8 bytes, and strings after their size.
struct Answer {
  const char* begin = nullptr;
  uint64_t size = 0;
  std::string content;

  template <typename T>
  void bytes(const T& value) { content.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void number(uint64_t value) { bytes(value); }
  void address(const void* value) { bytes(value); }
  void text(const std::string& value) { number(value.size()), content += value; }
  template <typename List>
  void kernels(const List& list) {
    number(list.size());
    for (const c10::impl::AnnotatedKernel& each : list) {
      bytes(each.kernel);
    }
  }

  const Answer* end() {
    begin = content.data(), size = content.size();
    return this;
  }
};

} // namespace

/// All tables; asks for nothing that torch decides at the first question.
SHARED const Answer* mac_code_tables() {
  auto& out = *new Answer;
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto& fallbacks = dispatcher.*opened(Fallbacks{});
  out.kernels(fallbacks);
  for (const auto& each : fallbacks) {
    out.address(&each.kernel);
  }
  for (int key = 0; key <= static_cast<int>(c10::DispatchKey::EndOfRuntimeBackendKeys); key++) {
    out.text(c10::toString(static_cast<c10::DispatchKey>(key)));
    out.number(c10::getDispatchTableIndexForDispatchKey(static_cast<c10::DispatchKey>(key)));
  }
  out.text("");
  for (const auto& each : dispatcher.*opened(Operators{})) {
    const auto& name = each.op.operator_name();
    out.text(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
    out.address((each.op.*opened(Table{})).data());
    const auto& kernels = each.op.*opened(Kernels{});
    out.number(kernels.size());
    for (const auto& [key, list] : kernels) {
      out.text(c10::toString(key));
      out.kernels(list);
    }
  }
  out.text("");
  out.number(kDeviceTypes);
  for (int type = 0; type < kDeviceTypes; type++) {
    out.address(c10::impl::device_guard_impl_registry[type].load());
    out.address(c10::GetAllocator(static_cast<c10::DeviceType>(type)));
  }
  const auto interpreted = torch::jit::getAllOperators();
  out.number(interpreted.size());
  for (const auto& each : interpreted) {
    out.address(each.get());
  }
  return out.end();
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
SHARED const Answer* mac_code_generator_operators() {
  auto& out = *new Answer;
  for (const auto& each : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(kGenerator))) {
    if (!each->isC10Op()) {
      // libc++'s std::function ends with a pointer to its content.
      const auto operation = each->getOperation();
      static_assert(sizeof(operation) == 4 * sizeof(void*));
      const void* words[4];
      std::memcpy(words, &operation, sizeof(words));
      out.address(*static_cast<const void* const*>(words[3]));
    }
  }
  out.number(0);
  return out.end();
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
