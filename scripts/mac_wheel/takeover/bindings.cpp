#include "takeover.h"

#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/mps/Module.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <exception>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace torch_mps_graph {
namespace {

namespace py = pybind11;

// Both backends bind functions and C++ classes of the same names. A function
// that is there would become the first overload of a new one, and so be the one
// that is called. Of the classes, pybind11 knows each by its C++ name; the
// official Python classes stay alive, since the end of one would make pybind11
// forget the new one.
void removeOfficial(const py::module_& module) {
  std::vector<std::pair<std::string, py::object>> all;
  for (const auto& item : module.attr("__dict__").cast<py::dict>()) {
    const auto name = item.first.cast<std::string>();
    if (name.rfind("_mps_", 0) == 0 || name.rfind("_MPS", 0) == 0) {
      all.emplace_back(name, py::reinterpret_borrow<py::object>(item.second));
    }
  }
  auto& known = py::detail::get_internals().registered_types_cpp;
  for (auto& [name, official] : all) {
    py::delattr(module, name.c_str());
    if (!PyType_Check(official.ptr())) {
      continue;
    }
    if (const auto* type = py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(official.ptr()))) {
      known.erase(std::type_index(*type->cpptype));
    }
    official.release();
  }
}

void replaceFunctions(const py::module_& module) {
  for (auto* function = torch::mps::python_functions(); function->ml_name != nullptr; ++function) {
    module.attr(function->ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(function, nullptr));
  }
}

// A capture can't see the work of extensions that call the other backend.
void refuseCapturesInTrouble(const py::module_& module) {
  auto graph = module.attr("_MPSGraph");
  auto begin = py::object(graph.attr("capture_begin"));
  graph.attr("capture_begin") = py::cpp_function(
      [begin](const py::object& self, const py::args& arguments, const py::kwargs& named) {
        const auto why = trouble();
        TORCH_CHECK(why.empty(), "torch.mps graph capture: ", why, ".");
        return begin(self, *arguments, **named);
      },
      py::name("capture_begin"),
      py::is_method(graph));
}

newfunc official_generator_new = nullptr;
newfunc official_storage_new = nullptr;

// Wrong devices and wrong types are for the official constructor to refuse.
bool meansMps(PyObject* device) {
  if (device == nullptr) {
    return false;
  }
  if (THPDevice_Check(device)) {
    return reinterpret_cast<THPDevice*>(device)->device.is_mps();
  }
  if (PyUnicode_Check(device)) {
    const auto name = py::cast<std::string>(py::handle(device));
    return name == "mps" || name == "mps:0";
  }
  return false;
}

PyObject* deviceArgument(PyObject* keywords) {
  return keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, "device");
}

PyObject* generatorNew(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  auto* device = deviceArgument(keywords);
  if (device == nullptr && PyTuple_GET_SIZE(arguments) == 1) {
    device = PyTuple_GET_ITEM(arguments, 0);
  }
  if (!meansMps(device)) {
    return official_generator_new(type, arguments, keywords);
  }
  // The official constructor makes the object, around a generator of the CPU.
  const py::tuple nothing;
  auto* self = official_generator_new(type, nothing.ptr(), nullptr);
  if (self != nullptr) {
    reinterpret_cast<THPGenerator*>(self)->cdata = at::make_generator<at::MPSGeneratorImpl>();
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* storageNew(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  if (!meansMps(deviceArgument(keywords))) {
    return official_storage_new(type, arguments, keywords);
  }
  // It takes an allocator by address in place of a device.
  auto changed = py::reinterpret_steal<py::dict>(PyDict_Copy(keywords));
  changed.attr("pop")("device");
  changed["allocator"] = reinterpret_cast<std::intptr_t>(at::mps::GetMPSAllocator());
  return official_storage_new(type, arguments, changed.ptr());
  END_HANDLE_TH_ERRORS
}

newfunc replace(const py::module_& module, const char* name, newfunc replacement) {
  const py::object object = module.attr(name);
  auto* type = reinterpret_cast<PyTypeObject*>(object.ptr());
  const auto official = type->tp_new;
  type->tp_new = replacement;
  PyType_Modified(type);
  return official;
}

// torch.Generator(device="mps") and torch.UntypedStorage(..., device="mps")
// make objects of the official backend without asking the hooks
// (torch/csrc/{Generator,Storage}.cpp). This puts constructors in front of
// them that make this backend's.
void replaceConstructors(const py::module_& module) {
  official_generator_new = replace(module, "Generator", generatorNew);
  official_storage_new = replace(module, "StorageBase", storageNew);
}

} // namespace

std::string replaceBindings() {
  try {
    auto module = py::module_::import("torch._C");
    removeOfficial(module);
    replaceFunctions(module);
    torch::mps::initModule(module.ptr());
    refuseCapturesInTrouble(module);
    replaceConstructors(module);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace torch_mps_graph
