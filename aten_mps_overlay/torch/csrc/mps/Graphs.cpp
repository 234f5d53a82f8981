#ifdef USE_MPS
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/object_ptr.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/pythoncapi_compat.h>

#include <c10/util/SmallVector.h>
#include <c10/util/irange.h>

#include <pybind11/stl.h>
#include <algorithm>
#include <cstring>
#include <mutex>

namespace torch::mps {

namespace {

using at::mps::MPSCommandGraph;
using at::mps::MPSCommandGraphPool;

// A line of the program. Keeps the code alone: the frame, or its globals, would
// keep the program's tensors. A CapturedTraceback keeps the code of all
// callers, and Dynamo ties what it has compiled to such code.
struct ProgramFrame final : c10::GatheredContext {
  ProgramFrame(PyCodeObject* code, int instruction)
      : code(code), instruction(instruction) {}
  ~ProgramFrame() override {
    // This may run without the GIL, so the next gatherFrame() drops the code.
    const std::lock_guard lock(dropped_mutex);
    dropped.emplace_back(code);
  }

  static void drop() {
    std::vector<PyCodeObject*> codes;
    {
      const std::lock_guard lock(dropped_mutex);
      std::swap(codes, dropped);
    }
    for (auto* code : codes) {
      Py_DECREF(code);
    }
  }

  PyCodeObject* const code;
  const int instruction;

 private:
  static inline std::mutex dropped_mutex;
  static inline std::vector<PyCodeObject*> dropped;
};

// torch's own code, or code that torch.fx wrote.
bool isOfTorch(PyFrameObject* frame, PyCodeObject* code) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  THPObjectPtr globals(PyFrame_GetGlobals(frame));
  PyObject* module = PyDict_GetItem(globals, key);
  const char* name = module ? PyUnicode_AsUTF8(module) : nullptr;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  PyErr_Clear();
  return (name && std::strncmp(name, "torch", 5) == 0 &&
          (name[5] == '\0' || name[5] == '.')) ||
      (file && std::strncmp(file, "<eval_with_key>", 15) == 0);
}

// The innermost frame that is not torch's own.
at::mps::MPSProgramFrame gatherFrame() {
  if (!Py_IsInitialized()) {
    return nullptr;
  }
  const py::gil_scoped_acquire gil;
  ProgramFrame::drop();
  auto* innermost = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  Py_XINCREF(innermost);
  THPObjectPtr next(innermost);
  while (next) {
    auto* frame = reinterpret_cast<PyFrameObject*>(next.get());
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!isOfTorch(frame, code)) {
      return std::make_shared<ProgramFrame>(code, PyFrame_GetLasti(frame));
    }
    Py_DECREF(code);
    next = reinterpret_cast<PyObject*>(PyFrame_GetBack(frame));
  }
  return nullptr;
}

// "train.py:12 (step)"
std::string lineOf(const at::mps::MPSProgramFrame& gathered) {
  const py::gil_scoped_acquire gil;
  const auto& frame = static_cast<const ProgramFrame&>(*gathered);
  const char* file = PyUnicode_AsUTF8(frame.code->co_filename);
  const char* name = PyUnicode_AsUTF8(frame.code->co_name);
  PyErr_Clear();
  return c10::str(
      file ? file : "?",
      ":",
      PyCode_Addr2Line(frame.code, frame.instruction),
      " (",
      name ? name : "?",
      ")");
}

// Of the AccumulateGrad node that the calling thread runs.
at::TensorBase gradientTarget() {
  const auto node = torch::autograd::get_current_node();
  const auto* accumulate =
      dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  return accumulate ? at::TensorBase(accumulate->variable) : at::TensorBase();
}

// Where the data of a tensor lies, and how. Not data_ptr(), which is the
// address of a buffer object plus an offset in the buffer, so that the sum for
// another buffer may be the same.
template <typename Use>
void forEachOfKey(const at::Tensor& tensor, const Use& use) {
  const auto keys = tensor.key_set();
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  use(reinterpret_cast<int64_t>(tensor.storage().data()));
  use(tensor.storage_offset());
  use(static_cast<int64_t>(sizes.size()) << 16 |
      static_cast<int64_t>(tensor.scalar_type()) << 2 |
      static_cast<int64_t>(keys.has(c10::DispatchKey::Conjugate)) << 1 |
      static_cast<int64_t>(keys.has(c10::DispatchKey::Negative)));
  std::for_each(sizes.begin(), sizes.end(), use);
  std::for_each(strides.begin(), strides.end(), use);
}

// Whether the arguments at some positions are tensors with these keys, which
// follow each other.
bool haveMemoryKeys(
    const py::tuple& arguments,
    const py::list& positions,
    const py::bytes& keys) {
  const auto* wanted =
      reinterpret_cast<const int64_t*>(PyBytes_AS_STRING(keys.ptr()));
  for (const auto i : c10::irange(positions.size())) {
    const auto position = PyLong_AsSize_t(PyList_GET_ITEM(positions.ptr(), i));
    TORCH_INTERNAL_ASSERT(position < arguments.size());
    PyObject* argument = PyTuple_GET_ITEM(arguments.ptr(), position);
    if (!THPVariable_Check(argument)) {
      return false;
    }
    // A key of another length has another kind, so no more of it is read.
    bool is_same = true;
    forEachOfKey(THPVariable_Unpack(argument), [&](int64_t part) {
      is_same = is_same && part == *wanted++;
    });
    if (!is_same) {
      return false;
    }
  }
  return true;
}

// Calls a method that must not wait with the GIL.
template <auto method>
py::object described(const MPSCommandGraph& graph) {
  auto description = [&] {
    py::gil_scoped_release no_gil;
    return (graph.*method)();
  }();
  return torch::jit::toPyObject(std::move(description));
}

// Python has a reference to the object, and not only C++. Releases name the
// question differently.
template <typename Slot>
auto isHeldByPython(Slot* slot, int) -> decltype(!slot->owns_pyobj()) {
  return slot->_unchecked_untagged_pyobj() && !slot->owns_pyobj();
}

template <typename Slot>
auto isHeldByPython(Slot* slot, long)
    -> decltype(slot->load_pyobj() != nullptr) {
  PyObject* object = slot->load_pyobj();
  return object && Py_REFCNT(object) > 1;
}

bool isTensorHeldByPython(const c10::TensorImpl& tensor) {
  return isHeldByPython(const_cast<c10::TensorImpl&>(tensor).pyobj_slot(), 0);
}

py::list resultsInUse(const MPSCommandGraph& graph) {
  const auto in_use = [&] {
    py::gil_scoped_release no_gil;
    return graph.resultsInUse(&isTensorHeldByPython);
  }();
  py::list results;
  for (const auto& [tensor, text] : in_use) {
    results.append(py::make_tuple(at::Tensor(tensor), text));
  }
  return results;
}

/// What `torch.mps.graph` does around a block. In C++, because Python runs
/// signal handlers between any two instructions of a function: an `__exit__()`
/// in Python may raise before it has done anything.
struct CaptureContext {};

py::object enterCapture(const py::object& context) {
  const bool nested = at::mps::isCurrentStreamCapturing();
  try {
    return context.attr("_begin")();
  } catch (const py::error_already_set&) {
    if (!nested && at::mps::isCurrentStreamCapturing()) {
      // raised after it had begun: __exit__() will not be called
      context.attr("mps_graph").attr("_capture_abort")();
    }
    throw;
  }
}

// "KeyError: 'x'", without more than the first line of a long message.
std::string describe(const py::handle& type, const py::handle& exception) {
  std::string name = py::str(type.attr("__name__"));
  try {
    const std::string text = py::str(exception);
    const auto line = text.substr(0, text.find('\n'));
    return line.empty() ? name + "." : name + ": " + line;
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) {
      throw; // Ctrl-C
    }
    return name + "."; // has a __str__() that raises
  }
}

void exitCapture(
    const py::object& context,
    const py::object& exception_type,
    const py::object& exception,
    const py::object& /*traceback*/) {
  const py::object graph = context.attr("mps_graph");
  if (!exception_type.is_none()) {
    graph.attr("_capture_abort")();
    graph.attr("_capture_abort")(describe(exception_type, exception));
    return;
  }
  try {
    graph.attr("capture_end")();
  } catch (const py::error_already_set& error) {
    // Raised before the end or after it. Calls the C++ reset(): a signal could
    // interrupt the Python one.
    graph.attr("_capture_abort")();
    py::type::of<MPSCommandGraph>().attr("reset")(graph);
    graph.attr("_capture_abort")(describe(error.type(), error.value()));
    throw;
  }
}

void submit(MPSCommandGraph& graph) {
  auto checked = graph.tryCheck();
  const pybind11::gil_scoped_release no_gil;
  if (checked) {
    graph.submit(std::move(checked));
  } else {
    graph.replay();
  }
}

// A method of C: to find the overload and the argument, as pybind11 does, takes
// a good part of a small replay.
PyObject* replay(PyObject* self, PyObject* /*unused*/) {
  HANDLE_TH_ERRORS
  auto* graph = static_cast<MPSCommandGraph*>(
      reinterpret_cast<py::detail::instance*>(self)
          ->get_value_and_holder()
          .value_ptr());
  TORCH_CHECK(
      graph, "torch.mps graph replay: __init__() of the graph was not called.");
  if (graph->asksProgram()) {
    py::handle(self).attr("_replay_with_program")();
  } else {
    submit(*graph);
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef replay_method = {
    "replay",
    replay,
    METH_NOARGS,
    R"doc(replay(self: torch._C._MPSGraph) -> None

Submit the recorded work again, in order with all other work of the MPS stream.

Returns without waiting for the GPU, unless several replays that copy much from the host are
in flight. If nothing ran on the device in the capture, it does nothing and warns.
Inside the capture of another graph, the work becomes part
of that graph.

Raises:
    RuntimeError: if the graph is empty or is being captured. Also if one of these changed
        since the capture: shape, strides, dtype or storage of a tensor that the block used,
        requires_grad of one that it used with gradients enabled, the value of a CPU tensor
        that it read on the host, a number in the param groups of an optimizer. With
        ``check_input_liveness``, also if a tensor is gone.
)doc"};

} // namespace

void initGraphBindings(py::module& module) {
  at::mps::setProgramLine(&gatherFrame, &lineOf);
  at::mps::setGradientTarget(&gradientTarget);
  // These calls may wait for the stream's queue, so the wrapper releases the
  // GIL. It also passes C++ warnings on to Python.
  py::class_<MPSCommandGraph, std::shared_ptr<MPSCommandGraph>>(
      module, "_MPSGraph")
      .def(
          py::init<bool, size_t>(),
          py::arg("keep_graph") = false,
          py::arg("encode_ahead") = 0)
      .def(
          "capture_begin",
          torch::wrap_pybind_function_no_gil(
              [](MPSCommandGraph& self,
                 std::optional<MPSCommandGraphPool> pool,
                 bool freeze_host_reads,
                 bool check_input_liveness) {
                self.captureBegin(
                    pool, freeze_host_reads, check_input_liveness);
              }),
          py::arg("pool") = py::none(),
          py::arg("freeze_host_reads") = false,
          py::arg("check_input_liveness") = true)
      .def(
          "capture_end",
          torch::wrap_pybind_function_no_gil(&MPSCommandGraph::captureEnd))
      .def(
          "_instantiate",
          torch::wrap_pybind_function_no_gil(&MPSCommandGraph::instantiate))
      .def(
          "_capture_abort",
          torch::wrap_pybind_function_no_gil(&MPSCommandGraph::captureAbort),
          py::arg("reason") = "")
      .def("_submit", torch::wrap_pybind_function(&submit))
      .def("_set_asks_program", &MPSCommandGraph::setAsksProgram)
      .def("_set_of_callable", &MPSCommandGraph::setOfCallable)
      .def("_results_in_use", &resultsInUse)
      .def("_draw_from_default_only", &MPSCommandGraph::drawFromDefaultOnly)
      .def("reset", torch::wrap_pybind_function_no_gil(&MPSCommandGraph::reset))
      .def("pool", torch::wrap_pybind_function_no_gil(&MPSCommandGraph::pool))
      .def("stats", &described<&MPSCommandGraph::stats>)
      .def(
          "_overwrites",
          torch::wrap_pybind_function_no_gil(&MPSCommandGraph::overwrites))
      .def(
          "_keeps",
          torch::wrap_pybind_function_no_gil(
              [](const MPSCommandGraph& self, const at::Tensor& tensor) {
                return self.keeps(tensor);
              }),
          py::arg("tensor"))
      .def("_dump", &described<&MPSCommandGraph::dump>);
  const auto type = py::type::of<MPSCommandGraph>();
  type.attr("replay") = py::reinterpret_steal<py::object>(PyDescr_NewMethod(
      reinterpret_cast<PyTypeObject*>(type.ptr()), &replay_method));
  py::class_<CaptureContext>(module, "_MPSGraphContext")
      .def(py::init<>())
      .def("__enter__", &enterCapture)
      .def("__exit__", &exitCapture);
  module.def("_mps_graph_pool_handle", &at::mps::newGraphPool);
  module.def(
      "_mps_isCurrentStreamCapturing", &at::mps::isCurrentStreamCapturing);
  module.def("_mps_releaseCachedMemory", [] {
    const pybind11::gil_scoped_release no_gil;
    at::mps::getIMPSAllocator()->emptyCache();
  });
  module.def("_mps_isCaptureUnderway", &at::mps::isCaptureUnderway);
  module.def("_mps_isAllocatedInCapture", [](const at::Tensor& tensor) {
    return at::mps::isAllocatedInCapture(tensor);
  });
  // A tensor that is alive counts as one weak reference itself.
  module.def("_mps_isWatchedByGraph", [](const at::Tensor& tensor) {
    return tensor.weak_use_count() > 1;
  });
  module.def("_mps_memoryKeyOf", [](const at::Tensor& tensor) {
    c10::SmallVector<int64_t, 16> key;
    forEachOfKey(tensor, [&](int64_t part) { key.push_back(part); });
    return py::bytes(
        reinterpret_cast<const char*>(key.data()),
        key.size() * sizeof(int64_t));
  });
  module.def("_mps_haveMemoryKeys", &haveMemoryKeys);
}

} // namespace torch::mps
#endif // USE_MPS
