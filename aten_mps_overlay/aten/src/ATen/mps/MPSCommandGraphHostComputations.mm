#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphHostComputations.h>
#include <ATen/mps/MPSCommandGraphHostInputs.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <unordered_set>

namespace at::mps {

static constexpr const char* cure =
    "Compute it before the capture or on the device, or use torch.compile(backend=\"mpsgraphs\"), which runs such "
    "operators at every call";

static std::optional<c10::OperatorHandle> operatorOf(const RecordFunction& function) {
  const auto name = function.operator_name();
  return name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
}

// Operators that take a tensor for its shape, dtype or device.
static bool readsNoContent(const RecordFunction& function) {
  static const std::unordered_set<std::string> names = {"aten::empty_like",
                                                        "aten::expand_as",
                                                        "aten::full_like",
                                                        "aten::is_same_size",
                                                        "aten::new_empty",
                                                        "aten::new_empty_strided",
                                                        "aten::new_full",
                                                        "aten::new_ones",
                                                        "aten::new_zeros",
                                                        "aten::ones_like",
                                                        "aten::reshape_as",
                                                        "aten::result_type",
                                                        "aten::type_as",
                                                        "aten::view_as",
                                                        "aten::zeros_like",
                                                        "aten::_has_compatible_shallow_copy_type"};
  return names.count(function.name()) > 0;
}

// Whether Python has the tensor. Releases name the question differently.
template <typename Slot>
static auto hasPythonObject(Slot* slot, int) -> decltype(slot->has_pyobj_nonhermetic()) {
  return slot->has_pyobj_nonhermetic();
}

template <typename Slot>
static auto hasPythonObject(Slot* slot, long) -> decltype(slot->load_pyobj() != nullptr) {
  return slot->load_pyobj() != nullptr;
}

// Memory of another library, as numpy's, gets into a tensor without an operator, and may change without one.
static bool isForeign(const StorageImpl& storage) {
  return storage.data_ptr().get_deleter() != c10::GetCPUAllocator()->raw_deleter();
}

// A number of the program: an operator wrapped it in a tensor, or an assignment to elements did in Python, where the
// tensors of the program are objects.
static bool isNumber(const Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return impl->is_wrapped_number() ||
      (tensor.dim() == 0 && tensor.storage().use_count() == 1 && knowsProgramLine() &&
       !hasPythonObject(impl->pyobj_slot(), 0) && !isForeign(*tensor.storage().unsafeGetStorageImpl()));
}

// Not a tensor that only says so, such as a fake one or a wrapper: those have no memory to look at.
static bool isOnHost(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu() || !tensor.has_storage()) {
    return false;
  }
  const auto& storage = tensor.storage();
  return storage.device_type() == kCPU && (storage.data() || storage.nbytes() == 0);
}

bool MPSHostAccess::has(const StorageImpl* storage) const {
  return std::any_of(
      uses.begin(), uses.end(), [&](const auto& use) { return use.storage._unsafe_get_target() == storage; });
}

MPSHostAccess::MPSHostAccess(const RecordFunction& function, MPSHostAccess* caller_access)
    : caller(caller_access),
      is_condition((caller && caller->is_condition) || std::string_view(function.name()) == "aten::is_nonzero" ||
                   std::string_view(function.name()) == "aten::equal") {
  std::optional<c10::OperatorHandle> op;
  const auto inputs = function.inputs();
  for (const auto i : c10::irange(inputs.size())) {
    forEachTensor(inputs[i], [&](const Tensor& tensor) {
      has_device_input |= tensor.defined() && tensor.is_mps();
      if (!isOnHost(tensor)) {
        return;
      }
      if (!op) {
        op = operatorOf(function);
      }
      if (!op) {
        return;
      }
      // A schema with variable arguments does not name all of them.
      const auto& arguments = op->schema().arguments();
      const auto* alias = i < arguments.size() ? arguments[i].alias_info() : nullptr;
      const bool is_written = alias && alias->isWrite();
      const auto* storage = tensor.storage().unsafeGetStorageImpl();
      bool is_temporary = caller != nullptr;
      for (auto* outer = caller; outer; outer = outer->caller) {
        for (auto& use : outer->uses) {
          if (use.storage._unsafe_get_target() == storage) {
            use.is_passed_on = true;
            is_temporary = false;
          }
        }
      }
      Use use{WeakTensor(tensor.getIntrusivePtr()), tensor.storage().getWeakStorageImpl()};
      use.is_written = is_written;
      use.is_number = !is_written && isNumber(tensor);
      use.may_last = use.is_number && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
      use.is_temporary = is_temporary;
      uses.push_back(std::move(use));
    });
  }
}

const MPSHostComputations::Known* MPSHostComputations::find(const StorageImpl* storage) const {
  const auto known = known_.find(storage);
  return known == known_.end() ? nullptr : &known->second;
}

bool MPSHostComputations::isComputed(const MPSHostAccess::Use& use) const {
  const auto* known = find(use.storage._unsafe_get_target());
  return known && known->origin == Origin::COMPUTED;
}

MPSHostComputations::Known& MPSHostComputations::add(const c10::weak_intrusive_ptr<StorageImpl>& storage,
                                                     Origin origin) {
  const auto [position, is_new] = known_.try_emplace(storage._unsafe_get_target(), Known{storage, origin});
  if (const auto living = is_new ? storage.lock() : nullptr) {
    position->second.is_foreign = isForeign(*living);
  }
  return position->second;
}

std::string MPSHostComputations::whyRead(const Known& known, bool is_condition) {
  const char* how = is_condition ? "a condition of the program depends on it" : "the host reads a number from it";
  return c10::str(known.reason, ", and ", how, ". ", cure);
}

// The host takes a number from a tensor, or chooses by it what to do: a replay does the same as the block.
std::string MPSHostComputations::read(const MPSHostAccess::Use& use, bool is_condition) {
  auto& known = add(use.storage, Origin::OUTSIDE);
  const auto* own = use.storage._unsafe_get_target();
  auto roots = known.roots;
  if (known.origin == Origin::OUTSIDE || known.is_written) {
    roots.insert(own);
  }
  for (const auto* root : roots) {
    auto& source = known_.at(root);
    if (source.is_written) {
      return whyRead(source, is_condition);
    }
    source.is_read = true;
  }
  if (is_condition) {
    return ""; // branches of the program are those of the capture
  }
  for (auto& [tensor, given] : given_) {
    const auto* storage = given.record.storageImpl();
    const bool is_root = roots.count(storage) > 0;
    given.is_read |= is_root && (storage != own || tensor == use.tensor._unsafe_get_target());
  }
  return "";
}

std::string MPSHostComputations::readValue(const MPSHostAccess::Use& use) {
  const auto* known = find(use.storage._unsafe_get_target());
  if (known && known->origin == Origin::CONSTANT) {
    return "";
  }
  const bool is_draw = known && known->origin == Origin::COMPUTED && known->roots.empty() && !known->is_written;
  return is_draw ? whyRead(*known, /*is_condition=*/false) : read(use, /*is_condition=*/false);
}

std::string MPSHostComputations::begin(const RecordFunction& function, const MPSHostAccess& access) {
  std::lock_guard lock(mutex_);
  for (const auto& use : access.uses) {
    const auto* known = find(use.storage._unsafe_get_target());
    const bool is_outside =
        (!known && use.may_last) || (!use.is_number && (!known || known->origin == Origin::OUTSIDE));
    if (use.is_number) {
      add(use.storage, Origin::CONSTANT);
    }
    const auto tensor = use.tensor.lock();
    if (tensor && is_outside && given_.count(tensor.get()) == 0) {
      given_.emplace(tensor.get(), Given{MPSUsedTensor(TensorBase(tensor)), /*is_read=*/use.may_last});
      unnamed_.push_back(tensor.get());
    }
  }
  if (access.is_condition) {
    for (const auto& use : access.uses) {
      auto problem = read(use, /*is_condition=*/true);
      if (!problem.empty()) {
        return problem;
      }
    }
    return "";
  }
  if (!access.has_device_input || readsNoContent(function)) {
    return "";
  }
  for (const auto& use : access.uses) {
    if (!use.is_written && isComputed(use)) {
      const auto* known = find(use.storage._unsafe_get_target());
      return c10::str(known->reason, ", and ", function.name(), " reads that tensor on the device. ", cure);
    }
  }
  return "";
}

std::string MPSHostComputations::end(const RecordFunction& function, const MPSHostAccess& access) {
  static const std::string item = "aten::_local_scalar_dense";
  const bool is_item = function.name() == item && !access.is_condition;
  if (!is_item && (!access.has_device_input || readsNoContent(function))) {
    return "";
  }
  std::lock_guard lock(mutex_);
  for (const auto& use : access.uses) {
    auto problem = use.is_written || use.is_passed_on ? std::string() : readValue(use);
    if (!problem.empty()) {
      return problem;
    }
  }
  return "";
}

std::string MPSHostComputations::readInKernel(const TensorBase& tensor) {
  std::lock_guard lock(mutex_);
  // Operators wrap numbers of the program. What they make otherwise is gone when the block ends.
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    given_.try_emplace(tensor.unsafeGetTensorImpl(), Given{MPSUsedTensor(tensor)});
    return readValue({MPSHostAccess::WeakTensor(tensor.getIntrusivePtr()), tensor.storage().getWeakStorageImpl()});
  }
  return "";
}

bool MPSHostComputations::hasUnnamed() const {
  std::lock_guard lock(mutex_);
  return !unnamed_.empty();
}

void MPSHostComputations::nameUses(const std::shared_ptr<const MPSProgramPlace>& place) {
  std::lock_guard lock(mutex_);
  for (const auto* tensor : unnamed_) {
    given_.at(tensor).record.setPlace(place);
  }
  unnamed_.clear();
}

MPSHostInputs MPSHostComputations::takeInputs() {
  std::lock_guard lock(mutex_);
  MPSHostInputs inputs;
  for (auto& [_, given] : given_) {
    auto& record = given.record;
    const auto* known = find(record.storageImpl());
    if (isLeftToGraphs(record) || !known || (known->origin != Origin::OUTSIDE && !given.is_read)) {
      continue;
    }
    if (given.is_read) {
      inputs.numbers.emplace_back(std::move(record));
    } else if (!record.isGone() && (known->is_copied || known->is_read)) {
      inputs.sources.push_back(std::move(record));
    } else if (known->is_copied) {
      inputs.source_storages.push_back(std::move(record));
    }
  }
  given_.clear();
  return inputs;
}

std::vector<MPSHostComputations::Change> MPSHostComputations::changesOf(const RecordFunction& function,
                                                                        const MPSHostAccess& access) const {
  std::vector<c10::weak_intrusive_ptr<StorageImpl>> given;
  for (const auto& output : function.outputs()) {
    forEachTensor(output, [&](const Tensor& tensor) {
      if (isOnHost(tensor)) {
        given.push_back(tensor.storage().getWeakStorageImpl());
      }
    });
  }
  const auto is_written = [](const auto& use) { return use.is_written; };
  if (given.empty() && std::none_of(access.uses.begin(), access.uses.end(), is_written)) {
    return {};
  }
  const auto op = operatorOf(function);
  if (!op) {
    return {};
  }
  std::lock_guard lock(mutex_);
  bool computes = op->hasTag(at::Tag::nondeterministic_seeded);
  std::vector<c10::weak_intrusive_ptr<StorageImpl>> roots;
  for (const auto& use : access.uses) {
    const auto* known = find(use.storage._unsafe_get_target());
    if (use.is_written || readsNoContent(function) || (known && known->origin == Origin::CONSTANT)) {
      continue;
    }
    computes = true;
    if (!known || known->origin == Origin::OUTSIDE || known->is_written) {
      roots.push_back(use.storage);
    }
    if (known) {
      for (const auto* root : known->roots) {
        roots.push_back(find(root)->storage);
      }
    }
  }
  std::vector<Change> changes;
  for (const auto& use : access.uses) {
    if (use.is_written) {
      const auto* known = find(use.storage._unsafe_get_target());
      const bool is_outside = !use.is_temporary && (!known || known->origin == Origin::OUTSIDE);
      changes.push_back({use.storage, computes || is_outside, /*is_written=*/true, use.is_temporary, roots});
    }
  }
  for (const auto& storage : given) {
    if (!access.has(storage._unsafe_get_target())) {
      changes.push_back({storage, computes, /*is_written=*/false, /*is_temporary=*/false, roots});
    }
  }
  return changes;
}

std::string MPSHostComputations::apply(const std::vector<Change>& changes,
                                       const std::string& by,
                                       const std::string& line) {
  const auto place = line.empty() ? line : " (" + line + ")";
  std::string problem;
  std::lock_guard lock(mutex_);
  for (const auto& change : changes) {
    const bool may_be_outside = change.is_written && !change.is_temporary;
    auto& known = add(change.storage, may_be_outside ? Origin::OUTSIDE : Origin::CONSTANT);
    if (change.is_written && (known.is_copied || known.is_read) && problem.empty()) {
      problem = c10::str(by,
                         " wrote to a CPU tensor",
                         place,
                         known.is_copied ? " that the block had copied to the device" : " that the block had read",
                         ", and a replay can't write to it again. ",
                         cure);
    }
    if (!change.is_computed) {
      continue;
    }
    if (known.origin != Origin::COMPUTED) {
      known.is_written = known.origin == Origin::OUTSIDE;
      known.reason = c10::str(by, known.is_written ? " wrote to a CPU tensor" : " computed a CPU tensor", place);
      known.origin = Origin::COMPUTED;
    }
    for (const auto& root : change.roots) {
      add(root, Origin::OUTSIDE);
      known.roots.insert(root._unsafe_get_target());
    }
  }
  return problem;
}

std::string MPSHostComputations::useSource(const TensorBase& given) {
  std::lock_guard lock(mutex_);
  auto& known = add(given.storage().getWeakStorageImpl(), Origin::OUTSIDE);
  if (known.origin == Origin::COMPUTED) {
    return c10::str(
        known.reason, ", which the block copies to the device: a replay would copy the same values. ", cure);
  }
  known.is_copied = true;
  return "";
}

bool MPSHostComputations::isMadeInBlock(const c10::Storage& storage) const {
  std::lock_guard lock(mutex_);
  const auto* known = find(storage.unsafeGetStorageImpl());
  return known && known->origin == Origin::CONSTANT;
}

// What only the graph has when the block ends, the block made.
std::string MPSHostComputations::endBlock() const {
  std::lock_guard lock(mutex_);
  for (const auto& [_, given] : given_) {
    const auto* known = find(given.record.storageImpl());
    const bool is_used = known && known->origin == Origin::OUTSIDE && (known->is_copied || given.is_read);
    if (is_used && known->is_foreign && isLeftToGraphs(given.record)) {
      return c10::str(
          "the block made a CPU tensor from memory of numpy or another library, and a replay would use the same values. ",
          cure);
    }
  }
  return "";
}

} // namespace at::mps
