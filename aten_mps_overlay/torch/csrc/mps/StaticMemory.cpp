#ifdef USE_MPS
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <c10/core/DefaultDtype.h>
#include <c10/util/irange.h>

#include <pybind11/stl.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace torch::mps {

namespace {

// How an argument relates to the static input in its place.
enum class Relation {
  OTHER, // another shape, dtype or device: the graph can't take it
  ELSEWHERE, // in other memory
  SAME, // the static input itself
  OVERLAPS, // another view of the memory of a static input
};

const void* memoryOf(const at::Tensor& tensor) {
  return tensor.storage().data();
}

bool isPlain(const at::Tensor& tensor) {
  return tensor.is_mps() && tensor.layout() == at::kStrided &&
      !tensor.key_set().has(c10::DispatchKey::Python);
}

bool isSame(const at::Tensor& tensor, const at::Tensor& other) {
  return memoryOf(tensor) == memoryOf(other) &&
      tensor.storage_offset() == other.storage_offset() &&
      tensor.strides() == other.strides() &&
      tensor.is_conj() == other.is_conj() && tensor.is_neg() == other.is_neg();
}

Relation relationOf(
    PyObject* argument,
    const at::Tensor& input,
    const std::vector<at::Tensor>& inputs) {
  if (!THPVariable_Check(argument)) {
    return Relation::OTHER;
  }
  const auto& tensor = THPVariable_Unpack(argument);
  if (!isPlain(tensor) || tensor.scalar_type() != input.scalar_type() ||
      tensor.sizes() != input.sizes()) {
    return Relation::OTHER;
  }
  if (isSame(tensor, input)) {
    return Relation::SAME;
  }
  const bool overlaps =
      std::any_of(inputs.begin(), inputs.end(), [&](const auto& other) {
        return memoryOf(tensor) == memoryOf(other);
      });
  return overlaps ? Relation::OVERLAPS : Relation::ELSEWHERE;
}

std::vector<int> relationsOf(
    const py::list& arguments,
    const std::vector<at::Tensor>& inputs) {
  std::vector<int> relations;
  relations.reserve(inputs.size());
  for (const auto i : c10::irange(inputs.size())) {
    PyObject* argument =
        PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
    relations.push_back(
        static_cast<int>(relationOf(argument, inputs[i], inputs)));
  }
  return relations;
}

std::vector<int64_t> versionsOf(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> versions;
  versions.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    versions.push_back(tensor.is_inference() ? 0 : tensor._version());
  }
  return versions;
}

// A value that is not there counts as None.
bool isUnchanged(PyObject* now, PyObject* before) {
  if (now == before || (!now && before == Py_None)) {
    return true;
  }
  // a number that was set to the same value again
  const bool is_number = now && Py_TYPE(now) == Py_TYPE(before) &&
      (PyFloat_CheckExact(now) || PyLong_CheckExact(now));
  return is_number && PyObject_RichCompareBool(now, before, Py_EQ) == 1;
}

// Whether dicts hold what they held. Each is given with the names and values
// that count, and whether it must have no others.
bool areUnchanged(const py::tuple& dicts) {
  for (const auto& entry : dicts) {
    const auto parts = py::reinterpret_borrow<py::tuple>(entry);
    PyObject* dict = PyTuple_GET_ITEM(parts.ptr(), 0);
    PyObject* names = PyTuple_GET_ITEM(parts.ptr(), 1);
    PyObject* values = PyTuple_GET_ITEM(parts.ptr(), 2);
    const auto count = PyTuple_GET_SIZE(names);
    if (PyTuple_GET_ITEM(parts.ptr(), 3) == Py_True &&
        PyDict_GET_SIZE(dict) != count) {
      return false;
    }
    for (const auto i : c10::irange(count)) {
      PyObject* now = PyDict_GetItem(dict, PyTuple_GET_ITEM(names, i));
      if (!isUnchanged(now, PyTuple_GET_ITEM(values, i))) {
        return false;
      }
    }
  }
  return true;
}

// Settings by which eager chooses its kernels, but for autocast, and whether
// the work becomes part of a graph, as one number.
int64_t flags() {
  const auto& context = at::globalContext();
  int64_t all = static_cast<int64_t>(context.float32MatmulPrecision());
  all =
      (all << 8) | static_cast<int64_t>(c10::get_default_dtype_as_scalartype());
  for (const bool flag :
       {context.deterministicAlgorithms(),
        context.deterministicAlgorithmsWarnOnly(),
        context.userEnabledFlashSDP(),
        context.userEnabledMemEfficientSDP(),
        context.userEnabledMathSDP(),
        context.allowFP16BF16ReductionMathSDP(),
        at::mps::isCurrentStreamCapturing()}) {
    all = (all << 1) | static_cast<int64_t>(flag);
  }
  return all;
}

// The dtypes of autocast as one number, 0 if it is off.
int64_t autocast() {
  int64_t all = 0;
  for (const auto device : {at::kMPS, at::kCPU}) {
    const bool is_on = at::autocast::is_autocast_enabled(device);
    const auto dtype = at::autocast::get_autocast_dtype(device);
    all = (all << 8) | (is_on ? static_cast<int64_t>(dtype) + 1 : 0);
  }
  return all;
}

bool requireGradients(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.requires_grad();
  });
}

/// Keeps a storage for another one that has its memory.
c10::DataPtr shareMemoryOf(const c10::Storage& storage) {
  return {
      const_cast<void*>(storage.data()),
      new c10::Storage(storage),
      [](void* kept) { delete static_cast<c10::Storage*>(kept); },
      storage.device()};
}

/// Tensors that were given away in memory which a replay will overwrite. Each
/// has a storage object for itself and its views, so that it can be seen
/// whether one of them still exists, and all of them can be given other memory.
class Loans {
 public:
  /// Tensors that still exist when end() is called raise `message` from then
  /// on. Without one they are given copies.
  explicit Loans(std::optional<std::string> message)
      : message_(std::move(message)) {}

  at::Tensor lend(const at::Tensor& tensor) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (message_) {
      auto alias = aliasOf(tensor);
      expiring_.emplace_back(alias.storage().getWeakStorageImpl());
      return alias;
    }
    auto& alias = kept_[tensor.unsafeGetTensorImpl()];
    if (!alias.defined()) {
      alias = aliasOf(tensor);
    }
    return alias;
  }

  /// Whether a tensor that would raise after end() still exists.
  bool isOut() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(
        expiring_.begin(), expiring_.end(), [](const auto& storage) {
          return !storage.expired();
        });
  }

  void end() {
    std::vector<WeakStorage> expiring;
    std::vector<at::Tensor> in_use;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::swap(expiring, expiring_);
      for (auto& [_, alias] : kept_) {
        if (alias.use_count() > 1 || alias.storage().use_count() > 1) {
          in_use.push_back(std::move(alias));
          alias.reset();
        }
      }
    }
    for (const auto& weak : expiring) {
      if (const auto storage = weak.lock()) {
        storage->set_data_ptr(c10::DataPtr(nullptr, storage->device()));
        storage->release_data_and_set_meta_custom_data_ptr_error_msg_(message_);
      }
    }
    for (const auto& alias : in_use) {
      giveCopy(alias.storage());
    }
  }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  static at::Tensor aliasOf(const at::Tensor& tensor) {
    auto storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        tensor.storage().nbytes(),
        shareMemoryOf(tensor.storage()),
        /*allocator=*/nullptr,
        /*resizable=*/false);
    auto alias = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(std::move(storage)), tensor.key_set(), tensor.dtype());
    alias.unsafeGetTensorImpl()->set_sizes_and_strides(
        tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return alias;
  }

  static void giveCopy(const c10::Storage& storage) {
    const c10::InferenceMode no_inference(false);
    const at::NoGradGuard no_grad;
    const auto bytes =
        at::empty({0}, at::device(storage.device()).dtype(at::kByte))
            .set_(storage);
    storage.set_data_ptr(shareMemoryOf(bytes.clone().storage()));
  }

  const std::optional<std::string> message_;
  std::mutex mutex_;
  std::vector<WeakStorage> expiring_;
  // by the tensor that was lent; the same alias is lent again
  std::unordered_map<const c10::TensorImpl*, at::Tensor> kept_;
};

} // namespace

void initStaticMemoryBindings(py::module& module) {
  py::class_<Loans>(module, "_MPSLoans")
      .def(
          py::init<std::optional<std::string>>(),
          py::arg("message") = py::none())
      .def("lend", torch::wrap_pybind_function_no_gil(&Loans::lend))
      .def("is_out", &Loans::isOut)
      .def("end", torch::wrap_pybind_function_no_gil(&Loans::end));
  module.def("_mps_relationsOf", &relationsOf);
  module.def("_mps_versionsOf", &versionsOf);
  module.def("_mps_areUnchanged", &areUnchanged);
  module.def("_mps_flags", &flags);
  module.def("_mps_autocast", &autocast);
  module.def("_mps_requireGradients", &requireGradients);
}

} // namespace torch::mps
#endif // USE_MPS
