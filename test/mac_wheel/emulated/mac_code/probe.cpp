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

namespace {

// The private members to look at. An explicit instantiation may name what is private.
template <typename Tag, auto Member>
struct Opened {
  friend constexpr auto opened(Tag) {
    return Member;
  }
};

struct Operators { friend constexpr auto opened(Operators); };
template struct Opened<Operators, &c10::Dispatcher::operators_>;
struct Fallbacks { friend constexpr auto opened(Fallbacks); };
template struct Opened<Fallbacks, &c10::Dispatcher::backendFallbackKernels_>;
struct Table { friend constexpr auto opened(Table); };
template struct Opened<Table, &c10::impl::OperatorEntry::dispatchTable_>;
struct Kernels { friend constexpr auto opened(Kernels); };
template struct Opened<Kernels, &c10::impl::OperatorEntry::kernels_>;

static_assert(sizeof(c10::KernelFunction) == 32, "tables.py reads it as four pointers");

// What Python reads: numbers of 8 bytes, and strings after their size.
class Writer {
 public:
  void number(uint64_t value) {
    content_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void address(const void* value) {
    number(reinterpret_cast<uint64_t>(value));
  }

  void text(const std::string& value) {
    number(value.size());
    content_ += value;
  }

  void kernel(const c10::KernelFunction& kernel) {
    content_.append(reinterpret_cast<const char*>(&kernel), sizeof(kernel));
  }

  const std::string& content() const {
    return content_;
  }

 private:
  std::string content_;
};

struct Answer {
  const char* begin;
  uint64_t size;
};

const Answer* answer(const Writer& writer) {
  static std::string kept;
  static Answer result;
  kept = writer.content();
  result = {kept.data(), kept.size()};
  return &result;
}

constexpr auto kDeviceTypes = static_cast<int>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);

} // namespace

/// All tables; asks for nothing that torch decides at the first question.
SHARED const Answer* mac_code_tables() {
  Writer out;
  auto& dispatcher = c10::Dispatcher::singleton();
  out.number(c10::num_runtime_entries);
  for (int key = 0; key <= static_cast<int>(c10::DispatchKey::EndOfRuntimeBackendKeys); key++) {
    const auto name = static_cast<c10::DispatchKey>(key);
    out.text(c10::toString(name));
    out.number(c10::getDispatchTableIndexForDispatchKey(name));
  }
  out.text("");
  for (const auto& fallback : dispatcher.*opened(Fallbacks{})) {
    out.kernel(fallback.kernel);
    out.address(&fallback.kernel);
  }
  const auto& operators = dispatcher.*opened(Operators{});
  out.number(operators.size());
  for (const auto& each : operators) {
    const auto& name = each.op.operator_name();
    out.text(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
    out.address((each.op.*opened(Table{})).data());
    const auto& kernels = each.op.*opened(Kernels{});
    out.number(kernels.size());
    for (const auto& [key, list] : kernels) {
      out.text(c10::toString(key));
      out.number(list.size());
      for (const auto& kernel : list) {
        out.kernel(kernel.kernel);
      }
    }
  }
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
  return answer(out);
}

/// The hooks. torch asks for them here if nothing has before, and keeps the answer.
SHARED const void* mac_code_hooks() {
  return &at::detail::getMPSHooks();
}

/// The default generator of the device, by the hooks.
SHARED const void* mac_code_generator() {
  return at::globalContext().defaultGenerator(at::kMPS).unsafeGetGeneratorImpl();
}

/// The function objects of the interpreter's operators of this name that are not the dispatcher's.
SHARED const Answer* mac_code_interpreted(const char* name) {
  Writer out;
  for (const auto& each : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
    if (!each->isC10Op()) {
      const auto operation = each->getOperation();
      // libc++'s std::function ends with a pointer to its content.
      static_assert(sizeof(operation) == 32);
      const void* content = nullptr;
      std::memcpy(&content, reinterpret_cast<const char*>(&operation) + 24, sizeof(content));
      const void* functions = nullptr;
      std::memcpy(&functions, content, sizeof(functions));
      out.address(functions);
    }
  }
  return answer(out);
}

namespace {

at::Tensor wrong(const at::Tensor& self, int64_t) {
  return self;
}

void fillWrong(torch::Library& library) {
  library.impl("sub.Tensor", TORCH_FN(wrong));
}

void fillNothing(torch::Library&) {
  throw std::runtime_error("planted");
}

using torch_mps_graph::DeferredLibrary;

// Puts a block in front of this one.
void insert(const DeferredLibrary** place, const char* name, c10::DispatchKey key, DeferredLibrary::Fill fill) {
  alignas(DeferredLibrary) static char memory[sizeof(DeferredLibrary)];
  auto* block = reinterpret_cast<DeferredLibrary*>(memory);
  block->name = name;
  block->key = key;
  block->fill = fill;
  block->file = "probe.cpp";
  block->line = 1;
  block->next = *place;
  *place = block;
}

const DeferredLibrary** endOf(const DeferredLibrary** place) {
  while (*place != nullptr) {
    place = const_cast<const DeferredLibrary**>(&(*place)->next);
  }
  return place;
}

} // namespace

/// Plants a kernel with a signature that is not its operator's, behind everything that the library registers.
SHARED void mac_code_plant_signature(const DeferredLibrary** first) {
  insert(endOf(first), "aten", c10::DispatchKey::MPS, fillWrong);
}

/// Plants a fallback of a device without one, which fails when all kernels and the interpreter's operator are registered.
SHARED void mac_code_plant_late_failure(const DeferredLibrary** first) {
  insert(first, "_", c10::DispatchKey::FPGA, fillNothing);
}

/// Plants a fallback that fails when the official one is gone. The library relies on that not to happen.
SHARED void mac_code_plant_fallback(const DeferredLibrary** first) {
  insert(endOf(first), "_", c10::DispatchKey::MPS, fillNothing);
}

/// Plants another operator of the interpreter in the place of the one that makes generators.
SHARED void mac_code_plant_interpreted() {
  constexpr const char* schema = "aten::Generator(*, Device? device=None, int? seed=None) -> Generator";
  for (const auto& each : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::Generator"))) {
    if (!each->isC10Op()) {
      torch::jit::deregisterOperator(each->schema());
    }
  }
  torch::jit::registerOperator(
      torch::jit::Operator(schema, [](torch::jit::Stack&) {}, c10::AliasAnalysisKind::FROM_SCHEMA));
}
